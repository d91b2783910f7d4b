"""Published heuristics and triggers of push/pull labelling, for comparison."""
