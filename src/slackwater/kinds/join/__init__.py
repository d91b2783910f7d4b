"""Join queries: pairs of rows of two tables."""
