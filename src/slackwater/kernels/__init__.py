"""Compiled loops, each beside a plain twin that says the same thing slowly and serves as its oracle."""
