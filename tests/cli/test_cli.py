"""The command line as a user meets it: real processes, real files, JSON that parses, sentences instead of traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

SLACKWATER = [sys.executable, "-m", "slackwater"]


def run(*arguments: str | Path, expect: int = 0, cwd: Path | None = None) -> str:
    command = [*SLACKWATER, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment, timeout=120)
    assert done.returncode == expect, (command, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout if expect in (0, 1) else done.stdout + done.stderr


def run_json(*arguments: str | Path, expect: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", expect=expect))


@pytest.fixture
def rough_csv(tmp_path: Path) -> Path:
    """Six rows, of which three are bad, each in its own way."""
    file = tmp_path / "rooms.csv"
    file.write_bytes(
        b"room,celsius,at\n"
        b"a,20.5,2026-01-01T00:00:00Z\n"
        b"b,warm,2026-01-01T00:00:00Z\n"
        b"\xff\xfe,20.0,2026-01-01T00:00:00Z\n"
        b"c,21.0,2026-01-01T00:01:00Z\n"
        b"d,21.0\n"
        b"a,20.7,2026-01-01T00:02:00Z\n"
    )
    return file


TYPED = ("--key", "room", "--time", "at")


def test_replay_inspect_verify_quarantine(rough_csv: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    schema = "CREATE TABLE rooms (room TEXT PRIMARY KEY, celsius DOUBLE, at TIMESTAMP) EVENT TIME at"
    run("sql", "--log", log, schema)
    first = run_json("replay", rough_csv, "--log", log, *TYPED)
    assert (first["accepted"], first["quarantined"], first["repeats"]) == (3, 3, 0)
    assert (first["promised"]["by_number"], first["promised"]["at_least_once"]) == (3, 0)
    again = run_json("replay", rough_csv, "--log", log, *TYPED)
    assert (again["accepted"], again["quarantined"], again["repeats"]) == (0, 0, 6)
    assert again["position"] == first["position"]

    summary = run_json("log", "inspect", log)
    assert summary["incarnations"][0]["start"] == 0
    assert "incarnation " in run("log", "inspect", log)
    assert summary["tables"] == ["rooms"]
    assert {(one["kind"], one["rows"]) for one in summary["contents"]} >= {("updates", 3), ("quarantined", 3)}
    assert "rooms" in run("log", "inspect", log)

    refused = run_json("log", "quarantine", log)
    assert refused["reasons"] == {"wrong-type": 1, "wrong-encoding": 1, "wrong-field-count": 1}
    assert "celsius: expected a DOUBLE" in run("log", "quarantine", log)

    assert run_json("log", "verify", log)["sound"] is True
    segment = max(log.glob("*.segment"), key=lambda file: file.stat().st_size)
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    segment.write_bytes(damaged)
    report = run_json("log", "verify", log, expect=1)
    assert (report["sound"], bool(report["damage"])) == (False, True)
    assert "damage" in run("log", "verify", log, expect=1)


def test_a_torn_parquet_file_goes_to_quarantine_where_its_table_is_known(tmp_path: Path) -> None:
    whole, torn, log = tmp_path / "whole.parquet", tmp_path / "torn.parquet", tmp_path / "log"
    columns = {"k": ["a", "b"], "v": [1.0, 2.0], "at": pa.array([0, 1], pa.timestamp("us", tz="UTC"))}
    parquet.write_table(pa.table(columns), whole)
    torn.write_bytes(whole.read_bytes()[:-20])
    told = run("replay", torn, "--log", log, "--key", "k", expect=2)
    assert "torn.parquet" in told
    assert run_json("replay", whole, "--log", log, "--key", "k", "--table", "t")["accepted"] == 2
    result = run_json("replay", torn, "--log", log, "--table", "t")
    assert (result["accepted"], result["quarantined"]) == (0, 1)
    assert run_json("replay", torn, "--log", log, "--table", "t")["repeats"] == 1
    assert run_json("log", "quarantine", log)["reasons"] == {"truncated-file": 1}


def test_files_of_one_name_in_two_folders_are_two_sources(tmp_path: Path) -> None:
    for folder, value in (("d1", "1.5"), ("d2", "2.5")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "p.csv").write_text(f"k,v\na,{value}\nb,{value}\n")
        told = run_json(
            "replay", tmp_path / folder / "p.csv", "--log", tmp_path / "log", "--key", "k", "--time", "none"
        )
        assert (told["accepted"], told["repeats"]) == (2, 0)


def test_what_contradicts_the_table_is_refused(rough_csv: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    run("sql", "--log", log, "CREATE TABLE Rooms (room TEXT PRIMARY KEY, celsius DOUBLE, at TIMESTAMP) EVENT TIME at")
    assert "the key room" in run("replay", rough_csv, "--log", log, "--key", "celsius", expect=2)
    assert "is there as DOUBLE" in run("replay", rough_csv, "--log", log, *TYPED, "--type", "celsius=TEXT", expect=2)
    assert "nope" in run("replay", rough_csv, "--log", log, "--key", "nope", expect=2)
    assert run_json("replay", rough_csv, "--log", log, *TYPED)["accepted"] == 3
    run("sql", "--log", log, "CREATE TABLE rooms (k TEXT PRIMARY KEY)", expect=2)
    assert run_json("sql", "--log", log, "SHOW TABLES")[0]["tables"][0]["name"] == "Rooms"


def test_types_can_be_told(rough_csv: Path, tmp_path: Path) -> None:
    options = ("--log", tmp_path / "log", *TYPED)
    assert run_json("replay", rough_csv, *options, "--dry-run")["table"]["columns"][1]["type"] == "TEXT"
    told = run_json("replay", rough_csv, *options, "--type", "celsius=DOUBLE")
    assert (told["accepted"], told["quarantined"]) == (3, 3)
    assert "COLUMN=TYPE" in run("replay", rough_csv, *options, "--type", "celsius=FLOAT", expect=2)


def test_dry_run_says_how_a_file_would_be_read(rough_csv: Path, tmp_path: Path) -> None:
    told = run_json("replay", rough_csv, "--log", tmp_path / "log", *TYPED, "--dry-run")
    assert (told["format"], told["shape"], told["table"]["key"]) == ("csv", "long", ["room"])
    assert not (tmp_path / "log").exists()


def test_naive_times_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("room,celsius,at\na,20.5,2026-01-01 00:00:00\nb,20.5,2026-01-01 00:00:00\n")
    assert "--tz" in run("replay", file, "--log", tmp_path / "log", *TYPED, expect=2)
    assert not (tmp_path / "log").exists()
    assert run_json("replay", file, "--log", tmp_path / "log", *TYPED, "--tz", "Europe/Berlin")["accepted"] == 2


def test_replay_at_a_pace_and_up_to_some_rows(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("".join(f'{{"k": "a", "v": {n}.5, "at": "2026-01-01T00:00:{n:02d}Z"}}\n' for n in range(10)))
    options = ("--key", "k", "--time", "at", "--speed", "1000", "--rows", "7")
    assert run_json("replay", file, "--log", tmp_path / "log", *options)["accepted"] == 7


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("replay", "nowhere.csv", "--log", "log"), "nowhere.csv"),
        (("replay", "here.csv", "--log", "log", "--shape", "round", "--key", "k"), "'wide' or 'long'"),
        (("replay", "here.csv", "--log", "log", "--speed", "fast", "--key", "k"), "--speed"),
        (("replay", "here.csv", "--log", "log", "--speed", "-1", "--key", "k"), "above 0"),
        (("log", "inspect", "nowhere"), "there is no log"),
        (("log", "verify", "nowhere"), "there is no log"),
        (("log", "quarantine", "nowhere"), "there is no log"),
        (("sql", "SELEC * FROM t"), "line 1, column"),
        (("sql", "SELECT * FROM t"), "line 1, column 15"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(arguments: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "here.csv").write_text("k,v\na,1\nb,2\n")
    told = run(*arguments, expect=2, cwd=tmp_path)
    assert sentence in told.replace("\n", " ")
    report = json.loads(run(*arguments, "--json", expect=2, cwd=tmp_path))
    assert {"error", "message"} <= report.keys()


def test_sql_explains_and_keeps_tables_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run("sql", "--log", log, "CREATE TABLE cars (id BIGINT PRIMARY KEY, price DOUBLE, year BIGINT)")
    (shown,) = run_json("sql", "--log", log, "SHOW TABLES")
    assert "cars" in json.dumps(shown)
    told = run("sql", "--log", log, "EXPLAIN SUBSCRIBE SELECT AVG(price) FROM cars WHERE year > 1998 WITHIN 0.5")
    assert "AVG" in told
    assert "0.5" in told
    run("sql", "--log", log, "DROP TABLE cars")
    assert "cars" in run("sql", "--log", log, "SELECT * FROM cars", expect=2)


def test_doctor_says_what_is_there() -> None:
    report = run_json("doctor")
    states = {finding["what"]: finding["state"] for finding in report["findings"]}
    assert (states["Python"], states["extra node"], states["Java"], report["missing"]) == ("ok", "ok", "ok", 0)
    assert "Python" in run("doctor")


def test_doctor_says_what_is_missing(tmp_path: Path) -> None:
    report = run_json("doctor", "--data", tmp_path / "nowhere", expect=1)
    assert report["missing"] == 1
    (missing,) = (finding for finding in report["findings"] if finding["state"] == "missing")
    assert missing["advice"]


@pytest.mark.parametrize("spark", ["--no-spark", "--spark"])
def test_demo_ends_by_itself_and_its_log_is_sound(tmp_path: Path, spark: str) -> None:
    told = run_json("demo", "--for", "3", "--items", "20", "--rate", "2000", "--data", tmp_path, spark)
    assert told["accepted"] > 1000
    assert told["quarantined"] > 0
    assert told["repeats"] > 0
    assert len(told["sumdiff"]) == 20
    assert 0 < told["worst_error_over_bound"] <= 1
    assert len(told["clients"]) == 10
    hosts = {client["kept_by"] for client in told["clients"]}
    assert hosts == {"node", "west", "east"} | ({"Spark"} if spark == "--spark" else set())
    assert told["messages_to_aggregators"] > 0
    for client in told["clients"]:
        assert abs(client["value"] - client["truth"]) <= client["within"]
    assert 0 < told["messages"] < told["messages_of_a_deadband_on_each_item"] < told["messages_of_pushing_everything"]
    report = run_json("log", "verify", tmp_path / "server" / "log")
    assert report["sound"] is True
    if spark == "--spark":
        kept = told["spark"]
        assert kept["position"] >= told["position"]
        assert kept["history_rows"] == told["accepted"]
        assert kept["latest_agrees"] is True


def test_help_and_version() -> None:
    for command in ((), ("demo",), ("replay",), ("sql",), ("log",), ("log", "verify"), ("doctor",)):
        assert "Usage" in run(*command, "--help")
    assert run("--version").strip() == "0.1.0"


def test_load_and_learn_from_files_and_from_what_is_kept(tmp_path: Path) -> None:
    lines = [
        f"{room},{celsius + minute % 7 / 10},2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"
        for minute in range(600)
        for room, celsius in (("a", 20.0), ("b", 18.0))
    ]
    file, kept = tmp_path / "rooms.csv", tmp_path / "kept"
    file.write_text("\n".join(["room,celsius,at", *lines, "c,warm,2026-01-01T00:00:00Z"]) + "\n")
    typed = (*TYPED, "--type", "celsius=DOUBLE")
    loaded = run_json("load", file, "--out", kept, *typed)
    assert loaded["promised"]["by_number"] == loaded["accepted"]
    assert (loaded["accepted"], loaded["quarantined"], loaded["unchanged"]) == (1200, 1, 0)

    direct = run_json("learn", file, "--out", tmp_path / "direct", *typed)
    again = run_json("learn", kept, "--table", "rooms", "--out", tmp_path / "again")
    assert (direct["rows"], again["rows"]) == (1200, 1200)
    assert (
        (direct["gap_seconds"], direct["grid_seconds"]) == (again["gap_seconds"], again["grid_seconds"]) == (1200, 60)
    )
    first, second = (
        parquet.read_table(folder / "rooms.celsius.parquet") for folder in (tmp_path / "direct", tmp_path / "again")
    )
    assert first.column("item").to_pylist() == second.column("item").to_pylist() == ["a", "b"]
    for name in ("figures.sumdiff", "figures.mean", "figures.variance", "figures.ar1_coefficient"):
        assert first.column(name).to_pylist() == pytest.approx(second.column(name).to_pylist(), rel=1e-9)
    assert "<svg" in (tmp_path / "again" / "rooms.celsius.svg").read_text()
    assert "say which table" in run("learn", kept, expect=2)


def test_what_cannot_be_learnt_is_said_at_once(tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("k,name,at\na,x,2026-01-01T00:00:00Z\nb,y,2026-01-01T00:00:00Z\n")
    assert "no numeric column" in run("learn", texts, "--key", "k", expect=2)
    assert "there is no" in run("learn", tmp_path / "gone.csv", expect=2)
