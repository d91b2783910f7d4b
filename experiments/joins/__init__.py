"""Experiments on standing joins: workloads and three experiments."""
