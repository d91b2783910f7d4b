"""Sessions without their sockets: events in, instructions out; no clock, no randomness, no I/O."""
