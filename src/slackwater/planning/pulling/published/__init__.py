"""Published pull schedulers and baselines, for comparison."""
