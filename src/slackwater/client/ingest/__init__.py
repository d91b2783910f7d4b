"""Rows of a program on their way to a server: their forms, and streams of them over the live connection."""
