"""Upstream nodes: items subscribed to at a bound, mirrored into the log of an aggregator."""
