"""Pairs of rows of two tables."""
