"""Published pull schedulers and baselines, to be compared with."""
