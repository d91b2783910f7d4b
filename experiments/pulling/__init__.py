"""Experiments on pull scheduling: traces, queries drawn as in the paper, and figures."""
