"""Bounded aggregates: one number over many rows, published again only when it leaves its bound."""

from slackwater.processing.bounded.operator import BoundedAggregates

__all__ = ["BoundedAggregates"]
