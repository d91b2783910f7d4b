"""Published heuristics and triggers of push and pull, to be compared with."""
