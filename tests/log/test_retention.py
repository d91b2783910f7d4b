from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core import Column, DataType, Instant, LogError, Position, TableSchema
from slackwater.log import LocalLog, Retention, SegmentSpan, TableDefined

TABLE = TableSchema("t", (Column("k", DataType.BIGINT, nullable=False),), key=("k",))


@st.composite
def some_spans(draw: st.DrawFn) -> list[SegmentSpan]:
    spans: list[SegmentSpan] = []
    first, at = draw(st.integers(0, 100)), 0
    sizes = draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
    for nth, size in enumerate(sizes):
        end = first + draw(st.integers(1, 20))
        at += draw(st.integers(0, 30))
        sealed = None if nth == len(sizes) - 1 else Instant(at)
        spans.append(SegmentSpan(Position(first), Position(end), size, sealed))
        first = end
    return spans


limits = st.none() | st.integers(0, 300)


@given(some_spans(), limits, limits, st.integers(0, 400), st.integers(0, 300))
def test_as_much_as_must_and_as_little_as_may_is_dropped(
    spans: list[SegmentSpan], most_bytes: int | None, oldest: int | None, now: int, in_use: int
) -> None:
    droppable = Retention(most_bytes, oldest).droppable(spans, Instant(now), Position(in_use))
    assert droppable in {span.first for span in spans}, "whole segments, and never the one being written"
    assert droppable <= max(in_use, spans[0].first)
    kept = [span for span in spans if span.first >= droppable]

    def may_stay(held: list[SegmentSpan]) -> bool:
        small = most_bytes is None or sum(span.size for span in held) <= most_bytes
        return small and (oldest is None or held[0].sealed is None or now - held[0].sealed <= oldest)

    assert may_stay(kept) or kept[0].sealed is None or kept[0].end > in_use
    if droppable > spans[0].first:
        one_more = [span for span in spans if span.end >= droppable]
        assert not may_stay(one_more)


def test_no_limit_drops_nothing_and_a_negative_one_is_refused() -> None:
    spans = [SegmentSpan(Position(0), Position(5), 10, Instant(0)), SegmentSpan(Position(5), Position(9), 10, None)]
    assert Retention().droppable(spans, Instant(10**15), Position(9)) == 0
    with pytest.raises(LogError, match="most_bytes"):
        Retention(most_bytes=-1)
    with pytest.raises(LogError, match="oldest"):
        Retention(oldest=-1)


def test_a_log_is_kept_small_and_young(tmp_path: Path) -> None:
    time = 0
    with LocalLog(tmp_path, segment_bytes=1, now=lambda: Instant(time)) as log:
        for _ in range(10):
            time += 100
            log.append([TableDefined(TABLE)])
        spans = log.spans
        assert [(span.first, span.end) for span in spans] == [(n, n + 1) for n in range(10)]
        assert [span.size for span in spans] == [file.stat().st_size for file in sorted(tmp_path.glob("*.segment"))]
        assert [span.sealed for span in spans] == [*(Instant(200 + 100 * n) for n in range(9)), None]
        young = Retention(oldest=300).droppable(spans, Instant(1000), in_use=log.end)
        assert young == 5
        small = Retention(most_bytes=3 * spans[-1].size).droppable(spans, Instant(1000), in_use=log.end)
        assert small == 7
        assert log.drop_before(small) == 7
        assert len(list(tmp_path.glob("*.segment"))) == 3
        assert Retention(oldest=0).droppable(log.spans, Instant(9999), in_use=Position(8)) == 8
        with LocalLog(tmp_path, read_only=True) as reader:
            assert reader.spans == log.spans
