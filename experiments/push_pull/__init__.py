"""Push and pull tried out: workloads made and real, every method on them, drift, and pictures of what came out."""
