"""The decisions of a poller, to the microsecond."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Instant, ManualClock, SourceError
from slackwater.sources.poll_schedule import PollOptions, PollProgress, TokenBucket, Validators, retry_after


@settings(max_examples=100, deadline=None)
@given(
    rate=st.floats(0.1, 1_000),
    burst=st.integers(1, 10),
    pauses=st.lists(st.floats(0, 2), min_size=1, max_size=60),
)
def test_a_bucket_never_lets_more_through_than_rate_and_burst(rate: float, burst: int, pauses: list[float]) -> None:
    clock = ManualClock()
    bucket = TokenBucket(rate, burst, clock)
    taken = 0
    for pause in pauses:
        clock.sleep(pause)
        while bucket.take():
            taken += 1
        assert taken <= burst + rate * clock.now() / 1e6 + 1e-6
    assert taken >= burst, "the first burst is free"


def test_who_waits_as_told_finds_a_token() -> None:
    clock = ManualClock()
    bucket = TokenBucket(rate=3, burst=2, clock=clock)
    for _ in range(100):
        clock.sleep(bucket.wait())
        assert bucket.take()
    assert clock.now() / 1e6 == pytest.approx(98 / 3, abs=1e-3)


def test_a_bucket_does_not_hoard() -> None:
    clock = ManualClock()
    bucket = TokenBucket(rate=1, burst=3, clock=clock)
    clock.sleep(1_000)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("bad", [(0, 1), (1, 0.5), (math.inf, 1), (math.nan, 1)])
def test_buckets_that_cannot_be(bad: tuple[float, float]) -> None:
    with pytest.raises(SourceError):
        TokenBucket(*bad, ManualClock())


def test_validators() -> None:
    assert Validators().headers() == {}
    both = Validators().after({"etag": 'W/"1"', "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT"})
    assert both.headers() == {"If-None-Match": 'W/"1"', "If-Modified-Since": "Mon, 01 Jan 2024 00:00:00 GMT"}
    assert both.after({}).headers() == {}, "what the new answer does not say no longer holds"
    for bad in ("x" * 5_000, 'a\r\nb"', "é", "\x00"):
        assert Validators().after({"etag": bad}).headers() == {}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("5", 5),
        (" 7 ", 7),
        ("0", 0),
        ("999999999999999999999", 60),
        ("-5", None),
        ("1.5", None),
        ("Thu, 01 Jan 1970 00:01:50 GMT", 10),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 01 Jan 2099 00:00:00 GMT", 60),
        ("Thu, 99 Foo", None),
        ("²", None),
        ("x" * 1_000, None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, Instant(100_000_000), most=60) == seconds


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_retry_after_is_bounded_or_nothing(value: str) -> None:
    pause = retry_after(value, Instant(0), most=60)
    assert pause is None or 0 <= pause <= 60


def test_progress() -> None:
    known = Validators(etag='"1"')
    progress = PollProgress().succeeded(known).failed().failed()
    assert (progress.failures, progress.validators) == (2, known)
    assert progress.succeeded(known).failures == 0


@pytest.mark.parametrize("options", [{"every": 0}, {"timeout": math.inf}, {"largest_body": 0}, {"most_redirects": 99}])
def test_options_that_cannot_be(options: dict[str, float]) -> None:
    with pytest.raises(SourceError):
        PollOptions(**options)  # type: ignore[arg-type]
