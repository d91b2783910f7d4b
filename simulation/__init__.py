"""Deterministic simulation: the real states in a world of losses, delays and kills. Not part of the wheel."""
