"""Limits as an operator sets them."""

import pytest

from slackwater.core.errors import SlackwaterError
from slackwater.sessions.limits import ServerLimits, limits_of


def test_what_is_not_set_stays() -> None:
    assert limits_of([]) == ServerLimits()
    assert limits_of(["rows=5", "head_seconds=0.5"]) == ServerLimits(rows=5, head_seconds=0.5)
    assert limits_of(["sockets_an_address=0"]) == ServerLimits()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("row=5", "there is no limit 'row'"),
        ("rows", "write rows=N, a whole number from 1 on"),
        ("rows=0", "write rows=N"),
        ("rows=1.5", "write rows=N"),
        ("rows=many", "write rows=N"),
        ("sockets_an_address=-1", "a whole number from 0 on"),
        ("head_seconds=0", "write head_seconds=SECONDS, more than 0"),
        ("head_seconds=nan", "write head_seconds=SECONDS"),
        ("head_seconds=inf", "write head_seconds=SECONDS"),
    ],
)
def test_a_wrong_setting_says_what_to_write(setting: str, expected: str) -> None:
    with pytest.raises(SlackwaterError, match=expected):
        limits_of([setting])
