"""Guessing how to read a file, and overriding the guess."""

from pathlib import Path

import pytest

from slackwater.core import DataType, SourceError
from slackwater.sources import FileSource, Format, Shape, infer, read_as
from slackwater.sources.read_options import default_source


def write(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def kinds(path: Path) -> dict[str, str]:
    return {column.name: column.type.value for column in infer(path, key=("id",)).schema.columns}


def test_csv_types(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "id,whole,number,flag,day,at,zip,text,none,mixed\n"
        "a,1,1,true,2024-01-02,2024-01-02T03:04:05Z,00501,x,,1\n"
        "b,-2,2.5e3,FALSE,2024-01-03,2024-01-02 03:04:05.123+02:00,10001,1,,x\n"
        "c,,,,,,,,,\n",
    )
    assert kinds(path) == {
        "id": "TEXT",
        "whole": "DOUBLE",
        "number": "DOUBLE",
        "flag": "BOOLEAN",
        "day": "TIMESTAMP",
        "at": "TIMESTAMP",
        "zip": "TEXT",
        "text": "TEXT",
        "none": "TEXT",
        "mixed": "TEXT",
    }


def test_json_types_leave_room_for_fractions(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '{"id": "1", "n": 1, "x": 1.5, "b": true, "at": "2024-01-02T03:04:05Z", "m": 1}\n'
        '{"id": "2", "n": 2, "x": 2, "b": null, "at": "2024-01-02T03:04:06Z", "m": "x"}\n',
        "data.jsonl",
    )
    assert kinds(path) == {"id": "TEXT", "n": "DOUBLE", "x": "DOUBLE", "b": "BOOLEAN", "at": "TIMESTAMP", "m": "TEXT"}


def test_wide(tmp_path: Path) -> None:
    path = write(tmp_path, "ts,IBM,MSFT\n2024-01-01 09:30:00,1,2\n2024-01-01 09:31:00,,3\n")
    reading = infer(path, timezone="America/New_York")
    assert (reading.shape, reading.time, reading.key, reading.items) == (Shape.WIDE, "ts", ("item",), ("IBM", "MSFT"))
    assert reading.naive
    assert not reading.lacks_timezone
    assert reading.schema.column("value").type is DataType.DOUBLE
    [arrival] = FileSource(reading).arrivals()
    assert arrival.batch.to_pydict() == {
        "item": ["IBM", "MSFT", "MSFT"],
        "value": ["1", "2", "3"],
        "ts": ["2024-01-01 09:30:00", "2024-01-01 09:30:00", "2024-01-01 09:31:00"],
        "$seq": [2, 3, 5],
    }
    assert (arrival.timezone, arrival.source, arrival.table) == ("America/New_York", default_source(path), "data")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("ts,symbol,price\n2024-01-01,A,1\n2024-01-01,B,2\n2024-01-02,A,3\n", ("symbol",)),
        ("ts,sensor,value\n2024-01-01,1,1\n2024-01-02,2,2\n", ("sensor",)),
        ("ts,note,car_id\n2024-01-01,x,1\n2024-01-01,x,2\n", ("car_id",)),
        ("n,x\n1,0.5\n2,0.5\n", ("n",)),
        ("word,n\na,1\nb,1\n", ("word",)),
    ],
)
def test_long_keys(tmp_path: Path, text: str, key: tuple[str, ...]) -> None:
    reading = infer(write(tmp_path, text))
    assert (reading.shape, reading.key) == (Shape.LONG, key)


@pytest.mark.parametrize(
    "text",
    [
        "ts,symbol\n2024-01-01,A\n2024-01-01,A\n",
        "x,y\n1.5,2.5\n",
        "ts,x\n2024-01-01,1\n2024-01-01,2\n",
    ],
)
def test_without_a_key_the_user_is_asked(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match=r"--key\. It has .*\("):
        infer(write(tmp_path, text))


def test_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "a;b;ts\n1;2;2024-01-01\n1;3;2024-01-02\n")
    reading = infer(
        path,
        table="mine",
        key=("a", "b"),
        time=None,
        types={"a": DataType.TEXT},
        source="s",
        delimiter=";",
    )
    assert (reading.schema.name, reading.key, reading.time, reading.source) == ("mine", ("a", "b"), None, "s")
    assert reading.schema.column("a").type is DataType.TEXT
    assert infer(path, delimiter=";").shape is Shape.WIDE
    assert infer(path, delimiter=";", shape=Shape.LONG, key=("a",)).shape is Shape.LONG
    assert infer(path, delimiter=";", names=("x", "y", "z"), key=("x",)).key == ("x",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": ("nope",)}, "no column 'nope'"),
        ({"time": "nope"}, "no column 'nope'"),
        ({"time": "n"}, "holds BIGINT, not times"),
        ({"types": {"nope": DataType.TEXT}}, "no column 'nope'"),
        ({"timezone": "Mars/Phobos", "key": ("n",)}, "unknown time zone"),
        ({"shape": Shape.WIDE, "time": None}, "needs a time column"),
        ({"shape": Shape.WIDE, "key": ("n",)}, "leave out the key"),
        ({"table": "$x", "key": ("n",)}, "cannot become a table"),
        ({"key": ("n", "n")}, "cannot become a table"),
        ({"format": Format.PARQUET}, "not a Parquet file"),
    ],
)
def test_overrides_that_cannot_be(tmp_path: Path, options: dict[str, object], said: str) -> None:
    path = write(tmp_path, "ts,n\n2024-01-01,1\n2024-01-02,2\n")
    with pytest.raises(SourceError, match=said):
        infer(path, **options)  # type: ignore[arg-type]


def test_names_that_differ_only_in_case(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="two columns called"):
        infer(write(tmp_path, "id,ID\na,b\n"), key=("id",))


def test_nothing_but_bad_rows(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no row"):
        infer(write(tmp_path, "a,b\n1\n2\n"))
    with pytest.raises(SourceError, match="no row"):
        infer(write(tmp_path, "", "x.jsonl"))


def test_bad_rows_of_a_wide_file_keep_their_place(tmp_path: Path) -> None:
    lines = "".join(f"2024-01-01 00:{minute:02d}:00,{minute},\n" for minute in range(1, 6))
    reading = infer(write(tmp_path, "ts,a,b\n" + lines + "torn\n2024-01-01 00:09:00,9,9\n"))
    [arrival] = FileSource(reading).arrivals()
    assert [(r.reason, r.sequence) for r in arrival.refused] == [("wrong-field-count", 12)]
    assert arrival.batch.column("$seq").to_pylist() == [2, 4, 6, 8, 10, 14, 15]


def test_reading_again_repeats_identities_whatever_the_batches(tmp_path: Path) -> None:
    path = write(tmp_path, "id,v\n" + "".join(f"k{n},{n}\n" if n % 7 else "bad\n" for n in range(500)))
    reading = infer(path)

    def identities(batch_rows: int) -> tuple[list[int], list[int]]:
        arrivals = list(FileSource(reading, batch_rows=batch_rows).arrivals())
        rows = [n for a in arrivals for n in a.batch.column("$seq").to_pylist()]
        return rows, [r.sequence or 0 for a in arrivals for r in a.refused]

    assert identities(10_000) == identities(3) == identities(64)


def test_a_given_schema_infers_nothing(tmp_path: Path) -> None:
    reading = infer(write(tmp_path, "id,v\na,1\n"))
    other = write(tmp_path, "id,v\nb,not a number\n", "other.csv")
    [arrival] = FileSource(read_as(other, reading.schema, timezone="UTC")).arrivals()
    assert arrival.batch.to_pydict() == {"id": ["b"], "v": ["not a number"], "$seq": [1]}
    assert (arrival.source, arrival.table) == (default_source(other), "data")
