"""Spark batch jobs: bulk load, learning, and labels for very many clients."""
