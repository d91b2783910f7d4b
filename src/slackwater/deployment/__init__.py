"""Deployments: the processes of a system, configured in one file and supervised together."""
