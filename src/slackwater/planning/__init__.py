"""Who sends what, and when: pure functions and policies, without I/O and without a clock of their own."""
