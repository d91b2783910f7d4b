"""Aggregator: a node that mirrors items of upstreams within a bound, and serves them at looser bounds."""
