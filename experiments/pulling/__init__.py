"""Experiments on pulling just enough: traces, queries as the paper draws them, and the figures."""
