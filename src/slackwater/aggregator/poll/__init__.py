"""Polled sources: asked at a fixed period, whatever the queries need."""
