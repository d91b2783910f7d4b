"""`slackwater log …`: look into a log, check every byte of it, show what was refused."""

from collections import Counter
from dataclasses import asdict
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from slackwater.cli.output import AsJson, console, errors, need_node, plain, print_json, table
from slackwater.core.errors import LogError
from slackwater.core.types import Instant, moment

app = typer.Typer(help="Look into a log: inspect, verify, quarantine.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The folder of the log.")]


@app.command("inspect")
def inspect_log(folder: Folder, as_json: AsJson = False) -> None:
    """Show positions, tables, rows and segments. Reads only the heads of records, so it is quick."""
    need_node()
    from slackwater.log import RecordKind, inspect

    _must_exist(folder)
    summary = inspect(folder)
    if as_json:
        segments = [asdict(segment) | {"begun": _time(segment.begun)} for segment in summary.segments]
        print_json(
            {
                "start": summary.start,
                "end": summary.end,
                "bytes": summary.size,
                "records": summary.records,
                "tables": summary.tables,
                "contents": [
                    asdict(one)
                    | {"kind": _kind(one.kind), "earliest": _time(one.earliest), "latest": _time(one.latest)}
                    for one in summary.contents
                ],
                "segments": segments,
                "incarnations": [
                    {"number": f"{one.number:016x}", "start": one.start} for one in summary.lineage.incarnations
                ],
            }
        )
        return
    console.print(
        f"positions {summary.start:,} to {summary.end:,} · {summary.records:,} records · "
        f"{_size(summary.size)} in {len(summary.segments)} segments · {len(summary.tables)} tables"
    )
    shown = table("contents", "kind", "table", "records", "rows", "size", "event times", numbers=(2, 3, 4))
    for one in summary.contents:
        if one.kind not in (RecordKind.UPDATES, RecordKind.QUARANTINED):
            continue
        times = f"{_time(one.earliest)} – {_time(one.latest)}" if one.earliest is not None else ""
        shown.add_row(_kind(one.kind), plain(one.table), f"{one.records:,}", f"{one.rows:,}", _size(one.size), times)
    console.print(shown)
    if summary.lineage.incarnations:
        present = summary.lineage.incarnations[-1]
        openings = len(summary.lineage.incarnations)
        console.print(
            f"incarnation {present.number:016x} since position {present.start:,}"
            + (f", after {openings - 1:,} others" if openings > 1 else "")
        )


@app.command("verify")
def verify_log(folder: Folder, as_json: AsJson = False) -> None:
    """Read and check every byte; lists all damage. Ends with 1 if there is any."""
    need_node()
    from slackwater.log import verify

    _must_exist(folder)
    with Progress(
        TextColumn("verifying"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=as_json or not errors.is_terminal,
    ) as progress:
        task = progress.add_task("", total=None)
        result = verify(folder, lambda done, total: progress.update(task, completed=done, total=total))
    if as_json:
        print_json(asdict(result) | {"sound": result.sound})
    else:
        console.print(
            f"{result.rows:,} rows in {result.records:,} records, {result.segments} segments, {_size(result.size)}; "
            f"positions {result.start:,} to {result.end:,}"
        )
        if result.unfinished_bytes:
            console.print(f"{result.unfinished_bytes:,} bytes at the end are unfinished and were never acknowledged")
        for damage in result.damage:
            console.print(
                f"[bold red]damage[/] {damage.file} at byte {damage.offset:,}, "
                f"position {damage.position:,}: {plain(damage.what)}"
            )
        console.print("[green]sound[/]" if result.sound else f"[bold red]{len(result.damage)} damaged places[/]")
    raise typer.Exit(0 if result.sound else 1)


@app.command("quarantine")
def show_quarantine(
    folder: Folder,
    most: Annotated[int, typer.Option("--most", min=1, help="Show at most so many of the latest rows.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show rows that were refused: the reason, where they came from and what they said."""
    need_node()
    from slackwater.log import LocalLog, Quarantined

    _must_exist(folder)
    reasons: Counter[str] = Counter()
    latest: list[dict[str, Any]] = []
    with LocalLog(folder, read_only=True) as log:
        for entry in log.read(log.start):
            if isinstance(entry.record, Quarantined):
                rows = entry.record.batch.to_pylist()
                reasons.update(row["reason"] for row in rows)
                latest = [*latest, *({"table": entry.record.table, **row} for row in rows)][-most:]
    if as_json:
        print_json({"rows": reasons.total(), "reasons": dict(reasons.most_common()), "latest": latest})
        return
    if not reasons:
        console.print("nothing was refused")
        return
    counted = table("refused rows", "reason", "rows", numbers=(1,))
    for reason, count in reasons.most_common():
        counted.add_row(plain(reason), f"{count:,}")
    console.print(counted)
    shown = table(f"the latest {len(latest)}", "place", "reason", "detail", "row")
    for row in latest:
        shown.add_row(plain(row["place"]), plain(row["reason"]), plain(row["detail"]), plain(_short(row["row"])))
    console.print(shown)


def _must_exist(folder: Path) -> None:
    if not folder.is_dir():
        raise LogError(
            f"there is no log at {folder}: it is not a folder; `slackwater replay FILE --log {folder}` makes one"
        )


def _kind(kind: int) -> str:
    """A record's kind in words; a number where a newer version wrote it."""
    return kind.name.lower().replace("_", " ") if isinstance(kind, IntEnum) else f"kind {kind}"


def _time(at: Instant | None) -> str | None:
    return None if at is None else f"{moment(at):%Y-%m-%d %H:%M}Z"


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"
