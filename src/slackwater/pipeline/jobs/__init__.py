"""Spark jobs that end: bulk load, learning, labels and plans for very many clients."""
