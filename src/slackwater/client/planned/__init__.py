"""Planned sums: parts kept by several aggregators, added up at the client."""
