"""Published relabelling triggers."""
