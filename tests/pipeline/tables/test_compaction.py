"""Few files, each row written again only a few times."""

from hypothesis import given
from hypothesis import strategies as st

from slackwater.pipeline.tables.compaction import FULL_ROWS, MERGED, due, tier
from slackwater.pipeline.tables.manifest import DataFile, DatedFile


def files(rows: list[int], table: str = "t", date: str = "2026-01-01") -> list[DatedFile]:
    return [DatedFile(table, date, DataFile(f"{table}/{date}/{n:05d}", count)) for n, count in enumerate(rows)]


@given(st.lists(st.integers(1, FULL_ROWS * 2), max_size=40), st.booleans())
def test_groups_are_disjoint_of_one_date_and_leave_full_files_alone(rows: list[int], thorough: bool) -> None:
    every = [*files(rows), *files(rows[:3], date="2026-01-02"), *files(rows[:3], table="u")]
    groups = due(every, thorough=thorough)
    chosen = [one.file.path for group in groups for one in group]
    assert len(chosen) == len(set(chosen))
    for group in groups:
        assert len({(one.table, one.date) for one in group}) == 1
        assert len(group) >= (2 if thorough else MERGED)
        assert all(one.file.rows < FULL_ROWS for one in group)
        assert sum(one.file.rows for one in group[:-1]) < FULL_ROWS, "a merged file is not much more than full"


def test_a_long_stream_ends_with_few_files_and_writes_each_row_a_few_times() -> None:
    kept: list[DatedFile] = []
    written = 0
    for nth in range(1500):
        kept += [DatedFile("t", "d", DataFile(f"{nth:05d}", 1000))]
        for group in due(kept):
            rows = sum(one.file.rows for one in group)
            written += rows
            kept = [one for one in kept if one not in group]
            kept.append(DatedFile("t", "d", DataFile(f"{nth:05d}+", rows)))
    assert sum(one.file.rows for one in kept) == 1_500_000
    assert len(kept) < 20
    assert written <= 1_500_000 * 6
    assert all(len(group) > 1 for group in due(kept, thorough=True))


@given(st.integers(1, FULL_ROWS - 1))
def test_tiers_grow_with_the_rows(rows: int) -> None:
    assert 0 <= tier(rows) <= tier(min(rows * 4, FULL_ROWS - 1)) <= tier(rows) + 1
