"""Admission limits: maximal sizes of rows, cells and columns from untrusted senders."""

from dataclasses import dataclass
from datetime import UTC, datetime

from slackwater.core.types import Instant, instant

_YEAR_1900 = instant(datetime(1900, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of admission; rows beyond them go to quarantine.

    `longest_text` is in bytes of UTF-8. Times before `earliest` are absurd: a wrong unit, a wrong century. Event
    times more than `ahead` microseconds after the moment of admission, which is the log clock, are a clock gone astray:
    one would win over all later updates of its key until the clock has caught up. Times in other columns win over
    nothing; more than `column_ahead` after that moment they are absurd. `kept_row` is how many characters of a refused
    row are kept.
    """

    longest_text: int = 65_536
    earliest: Instant = _YEAR_1900
    ahead: int = 24 * 3600 * 1_000_000
    column_ahead: int = 24 * 3600 * 1_000_000
    kept_row: int = 4_096
