"""Deliveries: how the facts of a query reach its subscribers (`base`), one file for each way, listed in `registry`."""
