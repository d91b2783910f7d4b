"""Log lines are limited in rate by the place that they come from, and what was held back is counted."""

import io
import logging
import random
from collections.abc import Iterator

import pytest

from slackwater.server.log_lines import LONGEST_LINE, LimitedHandler, LineLimiter, Place

MOST, SECONDS = 3, 10.0


def test_every_report_is_written_or_counted() -> None:
    """Whatever comes when: lines and counts add up, and no place has more lines in its while than it may."""
    for seed in range(50):
        rng = random.Random(seed)
        limiter = LineLimiter(MOST, SECONDS)
        now, sent, written, counted = 0.0, 0, 0, 0
        lines: dict[Place, list[float]] = {}
        for _ in range(500):
            now += rng.choice((0.0, 0.1, 4.0))
            counted += sum(int(text.split()[2]) for _, text in limiter.summaries(now))
            place = ("slackwater", rng.choice((30, 40)), "node.py", rng.randrange(3))
            sent += 1
            if limiter.passes(place, "x", now):
                written += 1
                lines.setdefault(place, []).append(now)
        counted += sum(int(text.split()[2]) for _, text in limiter.summaries(now, every=True))
        assert written + counted == sent
        for times in lines.values():
            # Of two neighbouring whiles at most.
            assert all(sum(one <= at < one + SECONDS for at in times) <= 2 * MOST for one in times)


@pytest.fixture
def time() -> list[float]:
    return [0.0]


@pytest.fixture
def written(time: list[float]) -> Iterator[tuple[logging.Logger, io.StringIO, LimitedHandler]]:
    stream = io.StringIO()
    handler = LimitedHandler(stream, LineLimiter(MOST, SECONDS), lambda: time[0])
    logger = logging.Logger("test")
    logger.addHandler(handler)
    yield logger, stream, handler
    handler.close()


def test_one_place_is_counted_and_others_are_heard(
    written: tuple[logging.Logger, io.StringIO, LimitedHandler], time: list[float]
) -> None:
    logger, stream, _ = written
    for nth in range(100):
        logger.warning("stranger %d", nth)
    logger.error("the disk is full")
    assert stream.getvalue().splitlines() == ["stranger 0", "stranger 1", "stranger 2", "the disk is full"]
    time[0] = SECONDS
    logger.info("later")
    assert stream.getvalue().splitlines()[-2:] == ["… and 97 more like it: stranger 99", "later"]


def test_tracebacks_are_counted_too_and_a_long_one_is_cut(
    written: tuple[logging.Logger, io.StringIO, LimitedHandler],
) -> None:
    logger, stream, _ = written
    for _ in range(1_000):
        try:
            raise ValueError("x" * 10 * LONGEST_LINE)
        except ValueError:
            logger.exception("failed")
    assert len(stream.getvalue()) < (MOST + 1) * (LONGEST_LINE + 100)


def test_the_count_is_written_though_nothing_follows() -> None:
    stream = io.StringIO()
    handler = LimitedHandler(stream, LineLimiter(1, 0.05))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    for _ in range(3):
        logger.warning("again")
    timer = handler._timer
    assert timer is not None
    timer.join(30)
    assert stream.getvalue().splitlines() == ["again", "… and 2 more like it: again"]
    handler.close()


def test_what_is_held_back_at_the_end_is_written(
    written: tuple[logging.Logger, io.StringIO, LimitedHandler],
) -> None:
    logger, stream, handler = written
    for _ in range(5):
        logger.warning("again")
    handler.close()
    assert stream.getvalue().splitlines()[-1] == "… and 2 more like it: again"
