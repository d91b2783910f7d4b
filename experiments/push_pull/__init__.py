"""Experiments on push/pull labelling: generated and recorded workloads, every method on them, drift, and plots."""
