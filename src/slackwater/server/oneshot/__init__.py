"""One-shot queries of a server: look-ups by key in process, everything else in worker processes."""
