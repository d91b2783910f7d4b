"""A node between others: it holds items within a bound of what they are upstream, and serves them at looser bounds."""
