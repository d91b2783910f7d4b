"""Measured figures: each module measures one thing and writes one small JSON file into `results`."""
