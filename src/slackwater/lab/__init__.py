"""Simulated clock, network and world: the whole system in one thread, from one seed."""
