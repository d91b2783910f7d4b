"""Published rivals of the standing joins, each behind the matcher protocol."""
