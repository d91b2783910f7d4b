"""Spark integration: the jobs and the host that run on Spark, and the Java under it."""
