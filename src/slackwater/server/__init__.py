"""Server: a node with its group commit, lanes, planners and REST interface."""
