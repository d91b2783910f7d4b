"""Cache queries: a client's partial replica of a table, of which the labelled rows are pushed."""
