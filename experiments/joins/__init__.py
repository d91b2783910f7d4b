"""Standing joins measured: workloads, and three experiments."""
