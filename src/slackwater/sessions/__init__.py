"""Sessions: the protocol state of all clients of a node, pure; events in, instructions out, no clock, no I/O."""
