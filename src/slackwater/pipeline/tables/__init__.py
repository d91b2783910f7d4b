"""Tables on Spark: *latest*, *history* and *quarantine*, committed exactly once from the log."""
