"""The Spark host: operators sharded over executors, and where their queries lie."""
