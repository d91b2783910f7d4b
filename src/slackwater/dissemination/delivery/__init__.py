"""Deliveries: the protocol (`base`) by which facts reach subscribers, one file for each way, listed in `registry`."""
