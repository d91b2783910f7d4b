"""Deployments: the processes of a system, configured in one file, started and supervised together."""
