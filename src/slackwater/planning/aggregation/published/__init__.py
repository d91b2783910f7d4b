"""Published planners and baselines of bounded sums over aggregators, to be compared with."""
