"""The page about the log may not say what is not so."""

import json
from pathlib import Path

import pytest

from slackwater.log import RecordKind, segment
from slackwater.log.catalog import MOST_TABLES
from slackwater.log.records import MOST_SUBJECT
from slackwater.log.writer import MOST_APPEND, SEGMENT_BYTES

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "log_append.json"


def page() -> str:
    return (ROOT / "docs" / "log.md").read_text()


def millions(rate: int) -> str:
    return f"{rate / 1e6:.2f} million" if rate < 1_000_000 else f"{rate / 1e6:.1f} million"


def figures() -> list[str]:
    """The table of the page, made from the measured result."""
    return [
        f"| {row['rows_a_batch']:,} | ".replace(",", " ")
        + " | ".join(millions(row[way]) for way in ("with_encoding", "without_encoding", "plain_file", "reading"))
        + " |"
        for row in json.loads(RESULT.read_text())["figures"]
    ]


def test_figures_are_the_measured_ones() -> None:
    for line in figures():
        assert line in page()


def test_a_million_updates_a_second_are_appended_in_large_batches() -> None:
    rates = {row["rows_a_batch"]: row["with_encoding"] for row in json.loads(RESULT.read_text())["figures"]}
    assert rates[10_000] >= 1_000_000


@pytest.mark.parametrize(
    "fact",
    [
        f"format version, {segment.VERSION} |",
        segment.MAGIC.decode(),
        f"every {SEGMENT_BYTES // 2**20} MiB",
        f"{MOST_APPEND // 2**30} GiB for one append",
        f"{MOST_SUBJECT:,} bytes for a table's name".replace(",", " "),
        f"{MOST_TABLES:,} tables".replace(",", " "),
        "kind: 1 updates, 2 quarantined, 3 table defined, 4 table dropped",
    ],
)
def test_facts_are_those_of_the_code(fact: str) -> None:
    assert fact in page()


def test_all_kinds_are_on_the_page() -> None:
    assert {kind.value for kind in RecordKind} == {1, 2, 3, 4, 5, 6, 7}
