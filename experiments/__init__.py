"""Experiments: each capability beside its published rivals, as small tables and pictures. Not part of the wheel."""
