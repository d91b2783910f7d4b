"""Live subscriptions: the replica of an answer, kept by frames over one connection."""
