"""Numba kernels: compiled loops, each beside a plain Python twin that serves as its test oracle."""
