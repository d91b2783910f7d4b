"""Nodes that serve: the pure state of all sessions, and the input and output around it."""
