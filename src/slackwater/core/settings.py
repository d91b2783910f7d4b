"""Settings file: TOML into a checked structure; every error names the file and, where there is one, the line."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from slackwater.core.errors import SlackwaterError

T = TypeVar("T")
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_ENTRY_OF_TABLES = re.compile(r"\s*\[\[\s*([^\[\]]+?)\s*\]\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_WORD = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")
_PLACE = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A TOML file: its content, and its text to find lines in."""

    path: Path
    text: str
    content: dict[str, Any]

    def check(self, content: Any, kind: type[T], expected: str, part: str = "") -> T:
        """`content`, which stands in the file under `part` (`aggregators.one`), as a structure.

        `expected` goes on after the path: `is not a deployment`.
        """
        try:
            return msgspec.convert(content, kind)
        except msgspec.ValidationError as error:
            line = find_line(self.text, str(error), part)
            where = "" if line is None else f"line {line}: "
            raise SlackwaterError(f"{self.path}{expected}: {where}{error}") from None


def read_settings(path: Path, example: str) -> SettingsFile:
    """Read a TOML file; `example` tells a user without one what to write or where to look."""
    try:
        text = path.read_text(encoding="utf-8")
        return SettingsFile(path, text, tomllib.loads(text))
    except OSError as error:
        raise SlackwaterError(f"{path} cannot be read ({error.strerror}); {example}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SlackwaterError(f"{path} is not TOML: {error}") from None


def find_line(text: str, message: str, part: str = "") -> int | None:
    """The line that a message of msgspec is about, or None where it is about several or about none.

    >>> text = '[server]\\nport = 1\\n[[feeds]]\\nname = "a"\\n[[feeds]]\\nname = 3\\n'
    >>> find_line(text, "Expected `str`, got `int` - at `$.feeds[1].name`")
    6
    >>> find_line(text, "Object contains unknown field `port` - at `$.server`")
    2
    """
    found = _PLACE.search(message)
    place = part + ("" if found is None else found.group(1))
    unknown = _UNKNOWN_FIELD.search(message)
    if unknown is not None:
        place += f".{unknown.group(1)}"
    # A key of a mapping is not named: `feeds[...]` is any of them.
    pattern = re.compile(re.escape(place.lstrip(".")).replace(re.escape("[...]"), r"\.[^.\[]+"))
    lines = {line for name, line in _lines(text).items() if pattern.fullmatch(name)}
    return lines.pop() if len(lines) == 1 else None


def _lines(text: str) -> dict[str, int]:
    """The line of every key and table, by its path: `feeds[1].name`."""
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, quotes = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:
            quotes = "" if quotes in line else quotes
            continue
        if (header := _ENTRY_OF_TABLES.match(line)) is not None:
            table = _path("", header.group(1), counts, last=False)
            counts[table] = counts.get(table, -1) + 1
            table = f"{table}[{counts[table]}]"
            lines.setdefault(table, number)
        elif (header := _TABLE.match(line)) is not None:
            table = _path("", header.group(1), counts)
            lines.setdefault(table, number)
            # A header also makes the tables around its own.
            for dot in re.finditer(r"\.", table):
                lines.setdefault(table[: dot.start()], number)
        elif (key := _KEY.match(line)) is not None:
            lines.setdefault(_path(table, key.group(1), counts), number)
        quotes = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), "")
    return lines


def _path(table: str, dotted: str, counts: dict[str, int], *, last: bool = True) -> str:
    words = ["".join(word) for word in _WORD.findall(dotted)]
    for place, word in enumerate(words):
        table = f"{table}.{word}" if table else word
        if table in counts and (last or place + 1 < len(words)):
            table += f"[{counts[table]}]"
    return table
