"""Planners: what watches the steps of the log and changes plans under epochs."""
