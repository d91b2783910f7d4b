"""One number over rows of one table, kept within a bound."""
