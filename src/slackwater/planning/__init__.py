"""Planning policies: pure functions that decide placement, pull times and labels, without I/O and without a clock."""
