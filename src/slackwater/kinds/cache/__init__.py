"""A client's copy of a table, of which a part is pushed."""
