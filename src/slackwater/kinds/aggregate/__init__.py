"""Aggregate queries: one number over rows of one table, within an error bound."""
