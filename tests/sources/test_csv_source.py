"""CSV: one bad record costs one record; rows keep their numbers; the file is streamed."""

import csv
import gzip
import io
from itertools import count, islice, pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.core.arrival import Refusal
from slackwater.core.errors import SourceError
from slackwater.sources.base import KEPT_ROW, LONGEST_LINE
from slackwater.sources.csv_file import CsvReader
from slackwater.sources.csv_records import Cutter
from slackwater.sources.file_format import TextBlocks

Cells = list[list[str | bytes | None]]


def read(*blocks: bytes, **options: object) -> tuple[list[int], Cells, list[Refusal]]:
    numbers: list[int] = []
    cells: Cells = []
    refused: list[Refusal] = []
    for rows in CsvReader(list(blocks), "test.csv", **options).rows():  # type: ignore[arg-type]
        assert len(rows.numbers) == rows.batch.num_rows
        numbers += rows.numbers.tolist()
        cells += [list(row) for row in zip(*(column.to_pylist() for column in rows.batch.columns), strict=True)]
        refused += rows.refused
    return numbers, cells, refused


def cut_at(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


def assert_all_there(numbers: list[int], refused: list[Refusal]) -> None:
    """Every number from 1 on is a row, a refusal, or one of the refusals without number, once."""
    known = [*numbers, *(refusal.sequence for refusal in refused if refusal.sequence is not None)]
    assert len(set(known)) == len(known)
    assert set(known) <= set(range(1, len(numbers) + len(refused) + 1))


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=2, max_size=2), max_size=12
    ),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
    places=st.lists(st.integers(0, 10_000), max_size=4),
)
def test_what_python_writes_is_read_back_wherever_blocks_are_cut(
    rows: list[list[str]], ending: str, places: list[int]
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator=ending)
    writer.writerow(["a", "b"])
    writer.writerows(rows)
    numbers, cells, refused = read(*cut_at(text.getvalue().encode(), places))
    assert cells == rows
    assert numbers == list(range(1, len(rows) + 1))
    assert not refused


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.text("ab,1 é", max_size=8), max_size=15),
    ending=st.sampled_from([b"\n", b"\r\n"]),
    places=st.lists(st.integers(0, 10_000), max_size=4),
)
def test_plain_lines_against_splitting(lines: list[str], ending: bytes, places: list[int]) -> None:
    data = ending.join([b"x,y", *(line.encode() for line in lines)]) + ending
    numbers, cells, refused = read(*cut_at(data, places))
    rows = [line.split(",") for line in lines if line]
    good = [(number, row) for number, row in enumerate(rows, 1) if len(row) == 2]
    assert numbers == [number for number, _ in good]
    assert cells == [[cell or None for cell in row] for _, row in good]
    assert [refusal.sequence for refusal in refused] == [n for n, row in enumerate(rows, 1) if len(row) != 2]


@settings(max_examples=300, deadline=None)
@given(
    garbage=st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"\xff", b"\x00", b'""', b" "]), max_size=40),
    places=st.lists(st.integers(0, 10_000), max_size=4),
    batch_rows=st.integers(1, 5),
)
@example(garbage=[b'"x', b"\n", b"1,2", b"\n"], places=[], batch_rows=5)
@example(garbage=[b"a", b"\r", b"\n", b'"'], places=[6], batch_rows=5)
def test_garbage_never_fails_and_every_record_is_accounted_for(
    garbage: list[bytes], places: list[int], batch_rows: int
) -> None:
    data = b"x,y\n" + b"".join(garbage)
    numbers, _, refused = read(*cut_at(data, places), batch_rows=batch_rows)
    assert [*numbers] == sorted(numbers)
    assert_all_there(numbers, refused)
    whole_numbers, _, whole_refused = read(data)
    assert whole_numbers == numbers
    assert [r.sequence for r in whole_refused] == [r.sequence for r in refused]


def records_one_by_one(data: bytes) -> list[tuple[bytes, int | None]]:
    """Each record of `data` and its number of fields (None: opened by a quote that is never closed)."""
    found: list[tuple[bytes, int | None]] = []
    position = 0
    while position < len(data):
        at, fields, quoted, field_starts = position, 1, False, True
        while at < len(data):
            byte = data[at : at + 1]
            if quoted:
                if byte == b'"' and data[at + 1 : at + 2] == b'"':
                    at += 1
                elif byte == b'"':
                    quoted = False
            elif byte == b'"' and field_starts:
                quoted = True
            elif byte in b"\r\n":
                break
            fields += byte == b"," and not quoted
            field_starts = byte == b"," and not quoted
            at += 1
        closed = not quoted
        if not closed:
            lines = [place for mark in (b"\r", b"\n") if (place := data.find(mark, position)) >= 0]
            at = min(lines, default=len(data))
        if at > position:
            found.append((data[position:at], fields if closed else None))
        position = at + (2 if data[at : at + 2] == b"\r\n" else 1)
    return found


@settings(max_examples=400, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from([b'"', b",", b"\n", b"\r\n", b"\r", b"a", b'"b"', b'""', b'"c,\nd"', b"1,2\n", b'"e""f"'])
    ),
    places=st.lists(st.integers(0, 10_000), max_size=4),
)
def test_cutting_against_one_byte_at_a_time(pieces: list[bytes], places: list[int]) -> None:
    data = b"".join(pieces)
    wanted = records_one_by_one(data)
    found: dict[int, bytes] = {}
    good: list[int] = []
    total = 0
    for piece in Cutter(",", 2).pieces(cut_at(data, places)):
        good += (piece.indices + total).tolist()
        found |= {total + bad.index: bad.text for bad in piece.bad}
        total += piece.total
    assert total == len(wanted)
    assert good == [index for index, (_, fields) in enumerate(wanted) if fields == 2]
    assert found == {index: record for index, (record, fields) in enumerate(wanted) if fields != 2}


@pytest.mark.slow
@settings(max_examples=5_000, deadline=None)
@given(garbage=st.binary(max_size=200), places=st.lists(st.integers(0, 10_000), max_size=6))
def test_any_bytes_are_accounted_for(garbage: bytes, places: list[int]) -> None:
    numbers, _, refused = read(*cut_at(b"x,y\n" + garbage, places))
    assert_all_there(numbers, refused)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"7", "wrong-field-count"),
        (b"7,8,9", "wrong-field-count"),
        (b'"7,8', "unclosed-quote"),
        (b'"7"",8', "unclosed-quote"),
        (b"7," + b"x" * (LONGEST_LINE + 1), "huge-line"),
        (b'7,"' + b"x" * (LONGEST_LINE + 1) + b'"', "huge-line"),
        (b"\x00\x01\xfe", "wrong-field-count"),
    ],
    ids=["too few", "too many", "open quote", "open doubled quote", "huge", "huge quoted", "binary"],
)
def test_one_bad_record_costs_one_record(bad: bytes, reason: str) -> None:
    numbers, cells, [refusal] = read(b"a,b\n1,2\n" + bad + b"\n3,4\n5,6\n")
    assert (numbers, cells) == ([1, 3, 4], [["1", "2"], ["3", "4"], ["5", "6"]])
    assert (refusal.reason, refusal.sequence) == (reason, 2)
    assert len(refusal.row) <= KEPT_ROW


def test_a_huge_line_over_many_blocks_is_skipped_without_being_held() -> None:
    block = b"x" * 100_000
    blocks = [b"a,b\n1,2\n3,", *([block] * 30), b"\n5,6\n"]
    numbers, cells, [refusal] = read(*blocks)
    assert (numbers, cells, refusal.reason) == ([1, 3], [["1", "2"], ["5", "6"]], "huge-line")


def test_quotes_line_ends_blanks_and_mark() -> None:
    data = b'\xef\xbb\xbfa,b\r\n\r\n"x\r\ny",\r\n"","say ""hi"""\r\n5" pipe,"q"z\r\n\r\n'
    path_numbers, cells, refused = read(data.removeprefix(b"\xef\xbb\xbf"))
    assert cells == [["x\r\ny", None], ["", 'say "hi"'], ['5" pipe', "qz"]]
    assert (path_numbers, refused) == ([1, 2, 3], [])


def test_a_column_with_a_wrong_encoding_comes_as_bytes_with_its_good_cells() -> None:
    _, cells, refused = read("a,b\nç,1\n".encode() + b"\xe7,2\n")
    assert cells == [["ç".encode(), "1"], [b"\xe7", "2"]]
    assert not refused


def test_a_torn_last_line() -> None:
    numbers, _, [refusal] = read(b"a,b\n1,2\n3")
    assert (numbers, refusal.reason, refusal.sequence, refusal.row) == ([1], "truncated-line", None, "3")
    assert read(b"a,b\n1,2\n3,4")[0] == [1, 2], "a last line that is whole needs no line end"


def test_a_file_that_grows_on_is_not_robbed_of_the_line_that_was_torn() -> None:
    whole = b'a,b\n1,2\n3,4\n5,"six\nand seven"\n8,9\n'
    wanted = dict(zip(*read(whole)[:2], strict=True))
    for length in range(4, len(whole)):
        numbers, cells, refused = read(whole[:length])
        assert all(refusal.sequence is None for refusal in refused)
        for number, row in list(zip(numbers, cells, strict=True))[:-1]:
            assert wanted[number] == row


def test_refused_rows_travel_with_their_batch() -> None:
    data = b"a,b\n" + b"1,2\nbad\n" * 6
    batches = list(CsvReader([data], "t", batch_rows=2).rows())
    assert [rows.numbers.tolist() for rows in batches] == [[1, 3], [5, 7], [9, 11]]
    assert [[r.sequence for r in rows.refused] for rows in batches] == [[2], [4, 6], [8, 10, 12]]


def test_the_file_is_streamed() -> None:
    endless = (b"a,b\n" if n == 0 else b"%d,x\n" % n for n in count())
    batches = islice(CsvReader(endless, "endless").rows(), 5)
    assert [rows.batch.column(0).to_pylist() for rows in batches] == [["1"], ["2"], ["3"], ["4"], ["5"]]


def test_names_can_be_given_and_unnamed_columns_are_numbered() -> None:
    assert CsvReader([b"1,2\n"], "t", names=("a", "b")).names() == ("a", "b")
    assert read(b"1,2\n", names=("a", "b"))[1] == [["1", "2"]]
    assert CsvReader([b",a\n"], "t").names() == ("column_1", "a")
    assert CsvReader([b'"a;b";c\n'], "t", delimiter=";").names() == ("a;b", "c")
    assert CsvReader([b"only"], "t").names() == ("only",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"\n\r\n", "it is empty"),
        (b"a,a\n1,2\n", "more than one column called a"),
        (b"\x00\x01\n", "zero bytes"),
        (b"caf\xe9\n", "UTF-8"),
        (b"x" * (LONGEST_LINE + 10), "longer than"),
        (b",".join([b"x"] * 30_000) + b"\n", "columns"),
    ],
)
def test_headers_that_cannot_be_used(data: bytes, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        read(data)


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "é"])
def test_delimiters_that_cannot_be_used(delimiter: str) -> None:
    with pytest.raises(SourceError, match="delimiter"):
        CsvReader([], "t", delimiter=delimiter)


def test_compressed_files_whole_torn_and_damaged(tmp_path: Path) -> None:
    lines = b"".join(b"%d,%x\n" % (n, n * 7919 % 1_000_003) for n in range(50_000))
    packed = gzip.compress(b"a,b\n" + lines)
    path = tmp_path / "data.csv.gz"

    def rows() -> tuple[int, list[str]]:
        batches = list(CsvReader(TextBlocks(path), str(path)).rows())
        return sum(b.batch.num_rows for b in batches), [r.reason for b in batches for r in b.refused]

    path.write_bytes(packed)
    assert rows() == (50_000, [])
    path.write_bytes(gzip.compress(b"a,b\n") + gzip.compress(lines))
    assert rows() == (50_000, []), "members that follow each other are one file"
    path.write_bytes(packed[: len(packed) // 2])
    got, reasons = rows()
    assert 20_000 < got < 30_000
    assert reasons[-1] == "truncated-file"
    path.write_bytes(packed[:15])
    with pytest.raises(SourceError, match="ends in the middle"):
        rows()
    path.write_bytes(packed[:5_000] + b"\x00" * 300 + packed[5_300:])
    got, reasons = rows()
    assert 500 < got < 50_000
    assert reasons[-1] in ("damaged-file", "truncated-file")


def test_types_are_text() -> None:
    [rows] = CsvReader([b"a,b\n1,2.5\n"], "t").rows()
    assert rows.batch.schema.types == [pa.string(), pa.string()]
