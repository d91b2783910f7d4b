"""Experiments on plans over aggregators, on recorded and made-up data: traces, settings, counts and tables."""
