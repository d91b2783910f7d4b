"""The picture of the front page shows what the operator does, and the page tells its figures."""

from pathlib import Path

import numpy as np

from experiments.front_page import ITEMS, TICKS, WITHIN, sums_sent

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_each_value_sent_is_within_the_bound_and_few_are() -> None:
    truth, sent = map(np.array, sums_sent())
    assert np.all(np.abs(truth - sent) <= WITHIN)
    messages = 1 + int(np.count_nonzero(np.diff(sent)))
    assert (
        f"moves with {TICKS * ITEMS:,} updates, and the {messages} messages that keep a client within {WITHIN:g}"
        in (README)
    )
    drawn = (ROOT / "docs" / "front-page" / "sum.svg").read_text()
    assert f"sent: {messages} messages" in drawn


def test_the_first_claim_is_the_one_of_the_table() -> None:
    [row] = [line for line in README.splitlines() if line.startswith("| pulls that sums over request-only sources")]
    assert f"need {row.split('|')[2].strip()} of the pulls of the best published algorithm" in README
