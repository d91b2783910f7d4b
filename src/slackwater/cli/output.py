"""Command output: tables for people, JSON for programs, errors to standard error."""

import importlib.util
import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slackwater.core.errors import MissingPart, SlackwaterError, SqlError

_WIDTH_ELSEWHERE = 140
"""Columns when the output is no terminal: a file or a pipe has room."""


def _console(stderr: bool) -> Console:
    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=_WIDTH_ELSEWHERE)


console = _console(stderr=False)
errors = _console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def print_json(value: Any) -> None:
    """Print one JSON document."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def table(title: str, *headings: str, numbers: tuple[int, ...] = ()) -> Table:
    """A table in the house's style; the columns in `numbers` stand to the right."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False
    )
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="right" if place in numbers else "left")
    return made


def plain(text: object) -> str:
    """Text of a stranger, so that square brackets in it do not style our output."""
    return escape(str(text))


def complain(error: SlackwaterError, *, as_json: bool) -> None:
    """Print an error."""
    if as_json:
        report: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
        if isinstance(error, SqlError):
            report |= {"message": error.message, "line": error.line, "column": error.column}
        print_json(report)
    else:
        errors.print(f"[bold red]error:[/] {plain(error)}", soft_wrap=True)


def need_node() -> None:
    """Refuse a command that the base install lacks packages for, with the way out."""
    if importlib.util.find_spec("pyarrow") is None or importlib.util.find_spec("numba") is None:
        raise MissingPart("this command needs the node extra: pip install 'slackwater[node]'")


def need_spark() -> None:
    """As `need_node`, for commands that run on Spark."""
    need_node()
    if importlib.util.find_spec("pyspark") is None:
        raise MissingPart("this command runs on Spark and needs the spark extra: pip install 'slackwater[spark]'")
