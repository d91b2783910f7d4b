"""Selection queries: rows of one table."""
