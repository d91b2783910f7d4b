"""Clients are judged by the truth at their own position."""

import pytest

from slackwater.cli.demo_audience import Audience, Portfolio, portfolios
from slackwater.sql import parse

HELD = Portfolio(("a", "b"), (1.0, 2.0), within=5.0)


def audience() -> Audience:
    return Audience([HELD], {"a": 10.0, "b": 20.0}, position=3)


def test_a_value_is_compared_with_the_truth_at_its_own_position() -> None:
    watched = audience()
    watched.sent({"a": 14.0}, 5)
    watched.sent({"a": 30.0}, 9)
    watched.shown(0, 52.0, 8, certain=True)  # the truth at 8 is that of 5: 54
    watched.judge()
    assert watched.worst == pytest.approx(2 / 5)


def test_a_value_that_is_ahead_waits_for_its_truth_and_doubtful_ones_do_not_count() -> None:
    watched = audience()
    watched.shown(0, 70.0, 9, certain=True)
    watched.shown(0, 0.0, 3, certain=False)
    watched.judge()
    assert watched.worst == 0.0
    watched.sent({"a": 30.0}, 9)
    watched.shown(0, 60.0, 10, certain=True)  # ahead of what was sent: not judged yet
    watched.judge()
    assert watched.worst == 0.0
    watched.sent({"a": 30.0, "b": 20.0}, 12)
    watched.judge()
    assert watched.worst == pytest.approx(10 / 5)
    assert (watched.seen[0].looks, watched.seen[0].certain) == (3, 2)
    assert (watched.rivals.everything, watched.rivals.deadband) == (1, 1), "what did not change is not sent"


def test_portfolios_can_be_asked_for() -> None:
    prices = {f"S{n:03}": 10.0 + n for n in range(30)}
    made = portfolios(prices, count=4, width=5, share=0.01, seed=3)
    assert made == portfolios(prices, count=4, width=5, share=0.01, seed=3)
    for one in made:
        worth = sum(prices[symbol] * held for symbol, held in zip(one.symbols, one.shares, strict=True))
        assert one.within == pytest.approx(worth / 100, rel=0.01)
        assert len(set(one.symbols)) == 5
        assert "WITHIN" in one.sql
        parse(one.sql)
