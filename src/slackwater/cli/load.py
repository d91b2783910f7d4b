"""`slackwater load FILE … --out DIR`: years of data straight into latest, history and quarantine, on Spark."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from slackwater.cli.file_options import (
    FileOptions,
    KeyOption,
    ShapeOption,
    TableOption,
    TimeOption,
    TypesOption,
    ZoneOption,
    how_to_read,
)
from slackwater.cli.output import AsJson, console, errors, need_spark, print_json
from slackwater.wallclock import WallClock


def load(
    files: Annotated[list[Path], typer.Argument(help="Parquet, CSV or JSON-lines files.")],
    out: Annotated[Path, typer.Option("--out", help="The folder of latest, history and quarantine.")],
    table_name: TableOption = None,
    key: KeyOption = None,
    time_column: TimeOption = None,
    shape: ShapeOption = None,
    timezone: ZoneOption = None,
    types: TypesOption = None,
    master: Annotated[str, typer.Option("--master", help="The Spark master.")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Load files in bulk: the same checks as everywhere, by all cores. Loading a file again changes nothing."""
    need_spark()
    from slackwater.intake import Promises
    from slackwater.pipeline.jobs.load import LoadReceipt
    from slackwater.pipeline.jobs.load import load as load_files
    from slackwater.pipeline.session import build_session
    from slackwater.pipeline.tables.snapshot import snapshot

    told = FileOptions(table_name, key, time_column, shape, timezone, None, types or [])
    tables = snapshot(out).tables if out.is_dir() and any(out.iterdir()) else ()
    readings = [how_to_read(file, told, tables) for file in files]
    session = build_session(master)
    began = time.monotonic()
    try:
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.completed:,.0f} rows"),
            TimeElapsedColumn(),
            console=errors,
            transient=True,
            disable=as_json or not errors.is_terminal,
        ) as progress:
            task = progress.add_task("", total=None)

            def advance(receipt: LoadReceipt) -> None:
                progress.update(task, completed=receipt.rows)

            receipt = load_files(readings, out, session, WallClock().now(), progress=advance)
    finally:
        session.stop()
    taken = time.monotonic() - began
    if as_json:
        # Rows of files are known by file and row number.
        promised = asdict(Promises(by_number=receipt.accepted))
        print_json(asdict(receipt) | {"promised": promised, "seconds": round(taken, 3)})
        return
    console.print(
        f"{receipt.rows:,} rows of {receipt.files} files in {taken:.1f} s ({receipt.rows / taken:,.0f} a second): "
        f"[green]{receipt.accepted:,} accepted[/], {receipt.quarantined:,} quarantined, {receipt.repeats:,} repeats; "
        f"{receipt.unchanged} files were here already"
    )
