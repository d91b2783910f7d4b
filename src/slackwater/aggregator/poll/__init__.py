"""Polled sources: requested at a fixed period, whatever the queries need."""
