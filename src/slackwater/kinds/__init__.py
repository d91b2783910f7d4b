"""Query kinds: one folder for each kind of standing query, one line in `registry.KINDS`.

To add one, write its value (what `core.query.StandingQuery` asks for) and its `base.QueryKind`, add it to `KINDS`, and
give `processing.operators.OPERATORS` something that keeps it. No other room names a kind.
"""

# The language first: it walks the list of kinds, and kinds are written with its parts.
import slackwater.sql  # noqa: F401
