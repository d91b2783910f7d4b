"""Published rivals of the standing joins, each behind the contract of a matcher."""
