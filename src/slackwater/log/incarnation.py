"""Incarnation numbers: random, so that no two openings of a log or of its copies have the same."""

import os

from slackwater.core.lineage import LARGEST_INCARNATION


def new_incarnation() -> int:
    """A number that no other opening of any log has; never that of a log which listed none."""
    return int.from_bytes(os.urandom(8), "little") % LARGEST_INCARNATION + 1
