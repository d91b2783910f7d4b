"""The Spark host: operators sharded over executors, and the placement of their queries."""
