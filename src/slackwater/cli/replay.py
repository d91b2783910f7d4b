"""`slackwater replay FILE --log DIR`: a file through admission into a log, at its own speed, faster, or at once."""

import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from slackwater.cli.file_options import (
    FileOptions,
    KeyOption,
    ShapeOption,
    SourceOption,
    TableOption,
    TimeOption,
    TypesOption,
    ZoneOption,
    how_to_read,
)
from slackwater.cli.output import AsJson, console, errors, need_node, plain, print_json, table
from slackwater.core.errors import SourceError
from slackwater.core.schema import TableSchema
from slackwater.wallclock import WallClock

if TYPE_CHECKING:
    from slackwater.core.arrival import Arrival
    from slackwater.intake import Intake, IntakeReceipt
    from slackwater.sources import Reading, Replay


def replay(
    file: Annotated[Path, typer.Argument(help="A Parquet, CSV or JSON-lines file (.gz too for the last two).")],
    log: Annotated[Path, typer.Option("--log", help="The folder of the log; made if it is not there.")],
    table_name: TableOption = None,
    key: KeyOption = None,
    time_column: TimeOption = None,
    shape: ShapeOption = None,
    timezone: ZoneOption = None,
    types: TypesOption = None,
    source: SourceOption = None,
    speed: Annotated[
        str, typer.Option("--speed", help="'full', 'original', or how many times faster, such as 60.")
    ] = "full",
    longest_gap: Annotated[
        float | None,
        typer.Option("--longest-gap", min=0, help="Seconds to wait at most [default: a minute of the data's time]."),
    ] = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="End after so many seconds.")] = None,
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="End after so many rows.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how the file would be read.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a file into a log. Replaying it again adds nothing: its rows are known by file and row number."""
    need_node()
    from slackwater.intake import MEMORY_FILE, Intake, IntakeReceipt
    from slackwater.log import LocalLog

    options = FileOptions(table_name, key, time_column, shape, timezone, source, types or [])
    reading = how_to_read(file, options, _tables(log))
    if dry_run:
        _describe(reading, as_json)
        return
    if reading.lacks_timezone:
        raise SourceError(f"times in {file} carry no time zone: say which with --tz, for example --tz UTC")
    paced = _paced(reading, speed, longest_gap, seconds, rows)
    started = time.monotonic()
    with LocalLog(log) as opened, Intake(opened, WallClock(), memory=log / MEMORY_FILE) as intake:
        intake.define(reading.schema)
        begin = opened.end
        taken_in = _take(paced.arrivals(), intake, IntakeReceipt(0, 0, 0, begin), quiet=as_json)
    taken = time.monotonic() - started
    total: dict[str, Any] = {
        "accepted": taken_in.accepted,
        "quarantined": taken_in.quarantined,
        "repeats": taken_in.repeats,
        "given_up": taken_in.given_up,
        "promised": asdict(taken_in.promised),
        "position": taken_in.position,
    }
    total |= {"table": reading.schema.name, "source": reading.source, "from": begin, "seconds": round(taken, 3)}
    if as_json:
        print_json(total)
        return
    came = total["accepted"] + total["quarantined"] + total["repeats"]
    console.print(
        f"{came:,} rows of {plain(file.name)} in {taken:.1f} s ({came / max(taken, 1e-9):,.0f} a second): "
        f"[green]{total['accepted']:,} accepted[/], {total['quarantined']:,} quarantined, "
        f"{total['repeats']:,} repeats; the log ends at {total['position']:,}"
    )
    if came and came == total["repeats"]:
        console.print(
            f"All of it was in the log already. To take it again, give it another name: --source {file.stem}-2"
        )
    if total["quarantined"]:
        console.print(f"See why: slackwater log quarantine {log}")


def _tables(log: Path) -> tuple[TableSchema, ...]:
    """The tables that the log has already, if there is a log."""
    from slackwater.log import LocalLog

    if not log.is_dir() or not any(log.glob("*.segment")):
        return ()
    with LocalLog(log, read_only=True) as opened:
        return tuple(opened.catalog())


def _paced(
    reading: "Reading", speed: str, longest_gap: float | None, seconds: float | None, rows: int | None
) -> "Replay":
    from slackwater.sources import FULL_SPEED, FileSource, Pace, Replay

    named = {"full": FULL_SPEED, "original": 1.0}
    try:
        factor = named[speed] if speed in named else float(speed)
    except ValueError:
        raise SourceError(f"--speed must be 'full', 'original' or a number, not {speed!r}") from None
    pace = Pace(speed=factor, longest_gap=longest_gap)
    return Replay(FileSource(reading), WallClock(), pace, seconds=seconds, rows=rows)


def _take(arrivals: "Iterable[Arrival]", intake: "Intake", total: "IntakeReceipt", *, quiet: bool) -> "IntakeReceipt":
    """Take the arrivals with a progress line; returns the total with all of them."""
    ignored: set[str] = set()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=quiet or not errors.is_terminal,
    ) as progress:
        task = progress.add_task("", total=None)
        for arrival in arrivals:
            receipt = intake.take([arrival])
            total = total.plus(receipt)
            note = f"{total.quarantined:,} quarantined" if total.quarantined else ""
            progress.update(task, advance=receipt.rows, description=note)
            for name in sorted({*receipt.ignored_columns} - ignored):
                ignored.add(name)
                errors.print(f"column {plain(name)} is not in the table and is left out")
    return total


def _describe(reading: "Reading", as_json: bool) -> None:
    schema: TableSchema = reading.schema
    if as_json:
        plainly = asdict(schema) | {"columns": [asdict(c) | {"type": c.type.value} for c in schema.columns]}
        print_json(
            {
                "format": reading.format.value,
                "shape": reading.shape.value,
                "source": reading.source,
                "times_without_zone": reading.naive,
                "items": len(reading.items),
                "table": plainly,
            }
        )
        return
    items = f", {len(reading.items)} items" if reading.items else ""
    console.print(f"{reading.format.value}, {reading.shape.value}{items}; source {plain(reading.source)}")
    shown = table(f"table {plain(schema.name)}", "column", "type", "")
    for column in schema.columns:
        role = "key" if column.name in schema.key else "event time" if column.name == schema.event_time else ""
        shown.add_row(plain(column.name), column.type.value, role)
    console.print(shown)
    if reading.lacks_timezone:
        console.print("times carry no zone: say which with --tz")
