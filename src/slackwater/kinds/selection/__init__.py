"""Rows of one table."""
