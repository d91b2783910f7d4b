"""Published planners and baselines of bounded sums over aggregators, for comparison."""
