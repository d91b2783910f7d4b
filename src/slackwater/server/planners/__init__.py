"""Planners: components that watch the steps of the log and change plans under epochs."""
