"""`slackwater learn TRACE …`: how data move, learnt on Spark, as a statistics file and a picture."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

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
from slackwater.cli.output import AsJson, console, errors, need_spark, plain, print_json, table
from slackwater.core.errors import SourceError, TooManyItems
from slackwater.core.types import Instant
from slackwater.wallclock import WallClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.pipeline.jobs.learn import Course, LearntStatistics, Lesson
    from slackwater.statistics import Statistics

_SECOND = 1_000_000
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class _Given:
    """The rules as the user gave them, in seconds."""

    gap: float | None
    grid: float | None
    half_life: float | None
    pairs: bool


def learn(
    traces: Annotated[list[Path], typer.Argument(help="Files of one table, or a folder that the pipeline keeps.")],
    out: Annotated[Path, typer.Option("--out", help="Where the statistics go.")] = Path("statistics"),
    table_name: TableOption = None,
    key: KeyOption = None,
    time_column: TimeOption = None,
    shape: ShapeOption = None,
    timezone: ZoneOption = None,
    types: TypesOption = None,
    columns: Annotated[str | None, typer.Option("--columns", help="Only these, separated by commas.")] = None,
    pairs: Annotated[
        bool | None,
        typer.Option("--pairs/--no-pairs", help="The similarity of all pairs of items too [default: if they are few]."),
    ] = None,
    gap: Annotated[
        float | None, typer.Option("--gap", help="Seconds without an update that are a gap [default: 20 intervals].")
    ] = None,
    grid: Annotated[
        float | None, typer.Option("--grid", help="Seconds of a bin for the similarity [default: one interval].")
    ] = None,
    half_life: Annotated[
        float | None, typer.Option("--half-life", help="Seconds after which the past counts half [default: never].")
    ] = None,
    picture: Annotated[bool, typer.Option("--picture/--no-picture", help="Draw an SVG beside each file.")] = True,
    master: Annotated[str, typer.Option("--master", help="The Spark master.")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Learn statistics of every numeric column; writes TABLE.COLUMN.parquet and a picture for each."""
    need_spark()
    from slackwater.pipeline.session import build_session

    now = WallClock().now()
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    told = FileOptions(table_name, key, time_column, shape, timezone, None, types or [])
    course, run = _prepared(traces, told, now, columns, _Given(gap, grid, half_life, pairs is not False), out)
    session = build_session(master)
    ready = time.monotonic()
    try:
        with _Bar(quiet=as_json) as advance:
            try:
                learnt = run(course, session, advance)
            except TooManyItems as many:
                if pairs:
                    raise
                errors.print(f"without pairs: {many}")
                course = replace(course, period=None)
                learnt = run(course, session, advance)
    finally:
        session.stop()
    taken = time.monotonic() - ready
    written = [_write(statistics, out, picture) for statistics in learnt.statistics.values()]
    if as_json:
        print_json(
            {
                "table": course.table.name,
                "rows": learnt.rows,
                "seconds": round(taken, 3),
                "start_up_seconds": round(ready - began, 3),
                "sorted_by_time": learnt.sorted_by_time,
                "gap_seconds": _seconds(course.longest_gap),
                "grid_seconds": _seconds(course.period),
                "half_life_seconds": _seconds(course.half_life),
                "files": written,
            }
        )
        return
    for statistics, files in zip(learnt.statistics.values(), written, strict=True):
        _show(statistics, files)
    how = ", sorted by time first" if learnt.sorted_by_time else ""
    console.print(
        f"{learnt.rows:,} rows in {taken:.1f} s ({learnt.rows / max(taken, 1e-9):,.0f} a second) after "
        f"{ready - began:.1f} s of start-up{how}; {_told_gap(course)}, "
        + ("no pairs" if course.period is None else f"the grid {_seconds(course.period)} s")
    )


def _prepared(
    traces: list[Path], told: FileOptions, now: Instant, columns: str | None, rules: _Given, out: Path
) -> "tuple[Course, Callable[[Course, SparkSession, Callable[[Lesson], None]], LearntStatistics]]":
    """The learning task: every mistake is found before Spark is started."""
    from slackwater.pipeline.jobs.learn import (
        USUAL_GAP,
        Course,
        interval_of_history,
        learn_files,
        learn_history,
        numeric_columns,
        usual_interval,
    )
    from slackwater.pipeline.tables.frames import history_frame
    from slackwater.pipeline.tables.snapshot import snapshot

    folder = traces[0] if len(traces) == 1 and traces[0].is_dir() else None
    if folder is not None:
        if told.table is None:
            names = ", ".join(one.name for one in snapshot(folder).tables)
            raise SourceError(f"say which table of {folder} with --table; there are {names}")
        kept = snapshot(folder)
        schema = kept.table(told.table)
        step = interval_of_history(kept.history(told.table), schema)
    else:
        readings = [how_to_read(trace, told, ()) for trace in traces]
        schema = readings[0].schema
        if any(reading.schema != schema for reading in readings):
            raise SourceError("the files do not have the same columns: learn them one by one")
        step = usual_interval(readings[0], now)
    chosen = numeric_columns(schema) if columns is None else tuple(name.strip() for name in columns.split(","))
    for name in chosen:
        schema.column(name)
    course = Course(
        schema,
        chosen,
        longest_gap=_micros(rules.gap) or (None if step is None else USUAL_GAP * step),
        half_life=_micros(rules.half_life),
        period=(_micros(rules.grid) or step or _SECOND) if rules.pairs else None,
    )
    if folder is not None:
        return course, lambda course, session, advance: learn_history(
            history_frame(session, folder, schema.name), course, advance, out
        )
    return course, lambda course, session, advance: learn_files(readings, course, session, now, advance, out)


def _told_gap(course: "Course") -> str:
    return "no gaps" if course.longest_gap is None else f"a gap is {_seconds(course.longest_gap)} s"


class _Bar:
    """A progress bar over pieces."""

    def __init__(self, *, quiet: bool) -> None:
        self._progress = Progress(
            TextColumn("learning"),
            BarColumn(),
            TextColumn("{task.fields[rows]:,} rows"),
            TimeElapsedColumn(),
            console=errors,
            transient=True,
            disable=quiet or not errors.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, rows=0)

    def __enter__(self) -> "Callable[[Lesson], None]":
        self._progress.start()
        return self._advance

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _advance(self, lesson: "Lesson") -> None:
        self._progress.update(self._task, completed=lesson.pieces, total=lesson.total, rows=lesson.rows)


def _write(statistics: "Statistics", out: Path, picture: bool) -> dict[str, str]:
    from slackwater.pipeline.jobs.picture import draw

    name = f"{statistics.table}.{statistics.column}".replace("/", "_")
    statistics.write(out / f"{name}.parquet")
    files = {"column": statistics.column, "statistics": str(out / f"{name}.parquet")}
    if picture:
        draw(statistics, out / f"{name}.svg")
        files["picture"] = str(out / f"{name}.svg")
    return files


def _show(statistics: "Statistics", files: dict[str, str]) -> None:
    import numpy as np

    figures = statistics.value()
    movement = figures.movement
    order = np.argsort(-np.nan_to_num(movement.sumdiff), kind="stable")[:_SHOWN]
    title = f"{statistics.table}.{statistics.column}: {len(figures.items):,} items"
    shown = table(
        title, "item", "ticks", "gaps", "sumdiff", "|change|", "deviation", "AR(1)", numbers=(1, 2, 3, 4, 5, 6)
    )
    for k in order.tolist():
        shown.add_row(
            plain(figures.items[k]),
            f"{movement.ticks[k]:,}",
            f"{movement.gaps[k]:,}",
            f"{movement.sumdiff[k]:,.6g}",
            f"{movement.per_tick[k]:.4g}",
            f"{movement.deviation[k]:.4g}",
            f"{figures.moments.coefficient[k]:.4f}",
        )
    console.print(shown)
    console.print(plain(" · ".join(value for name, value in files.items() if name != "column")), soft_wrap=True)


def _micros(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not 0 < seconds < 1e12:
        raise SourceError(f"a length of time must be above 0 seconds, not {seconds}")
    return max(1, round(seconds * _SECOND))


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / _SECOND
