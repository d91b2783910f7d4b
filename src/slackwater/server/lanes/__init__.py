"""Lanes: the hosts of operators as a server sees them, each with its own sessions and position."""
