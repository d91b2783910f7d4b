"""Bounded aggregates: one number over many rows, said again only where it left its bound."""

from slackwater.processing.bounded.operator import BoundedAggregates

__all__ = ["BoundedAggregates"]
