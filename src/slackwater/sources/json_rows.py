"""JSON rows: one object at a time in, Arrow columns out.

A row is a flat object of scalars. What is not becomes a `Fault`: `not-json`, `not-an-object`, `nested-value`,
`empty-object`, `duplicate-key`, `reserved-name`, `wrong-encoding`, `too-many-columns`.

Columns are typed per batch by what is in them. A missing member is null. Whole and fractional numbers together make
a column of doubles. Any other mixture makes a column of text in which each cell is its JSON scalar written as text
(`3`, `1.5`, `true`; a string without its quotes): admission then casts cell by cell and refuses just the rows that
do not fit. What this loses: in a mixed column, the number 3 and the string "3" look the same.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from slackwater.core.schema import MOST_COLUMNS, RESERVED_PREFIX

Cell: TypeAlias = bool | int | float | str | None
JsonRow: TypeAlias = dict[str, Cell]

_LARGEST_EXACT = 2**53
_MEMBER = re.compile(rb'"\s*:')
_SCALARS = frozenset((bool, int, float, str, type(None)))
_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a piece of JSON is no row."""

    reason: str
    detail: str


def parse(text: bytes, most: int = MOST_COLUMNS) -> JsonRow | Fault:
    """Read one object.

    >>> parse(b'{"symbol": "IBM", "price": 130.5}')
    {'symbol': 'IBM', 'price': 130.5}
    >>> parse(b'{"a": 1, "a": 2}')
    Fault(reason='duplicate-key', detail="the member 'a' occurs twice")
    """
    try:
        found = _decoder.decode(text)
    except UnicodeDecodeError as error:
        return Fault("wrong-encoding", f"not UTF-8: {error.reason} at byte {error.start}")
    except msgspec.MsgspecError as error:
        return Fault("not-json", str(error))
    except RecursionError:
        return Fault("nested-value", "nested too deeply; expected a flat object of scalars")
    if not isinstance(found, dict):
        return Fault("not-an-object", f"expected a JSON object, found {_kind(found)}")
    if not found:
        return Fault("empty-object", "the object has no members")
    if len(found) > most:
        return Fault("too-many-columns", f"{len(found):,} members where at most {most:,} are allowed")
    for name, value in found.items():
        if type(value) not in _SCALARS:
            return Fault("nested-value", f"the member {name!r} holds {_kind(value)}; expected a scalar")
        if name.startswith(RESERVED_PREFIX):
            return Fault("reserved-name", f"the member {name!r} begins with {RESERVED_PREFIX!r}, kept for Slackwater")
    if not is_surely_once(text, len(found)):
        twice = _repeated(text)
        if twice is not None:
            return Fault("duplicate-key", f"the member {twice!r} occurs twice")
    return found


def is_surely_once(text: bytes, members: int) -> bool:
    """Whether counting proves that no member was overwritten by a second one of its name; cheapest proof first.

    Every member has a colon after its quote. So no more colons than members means no member is hidden; and so do no
    more quotes with a colon, which strings with escaped quotes can only increase.
    """
    if text.count(b":") == members:
        return True
    if not (b" :" in text or b"\t:" in text or b"\n:" in text or b"\r:" in text):
        return text.count(b'":') == members
    return len(_MEMBER.findall(text)) == members


def columns(rows: Sequence[JsonRow]) -> pa.RecordBatch:
    """Put rows into columns, in the order in which members first appear.

    >>> columns([{"a": 1, "b": 2}, {"a": "x", "b": 2.5}]).to_pydict()
    {'a': ['1', 'x'], 'b': [2.0, 2.5]}
    """
    seen: dict[str, None] = {}
    for row in rows:
        if not row.keys() <= seen.keys():
            seen.update(dict.fromkeys(row))
    names = list(seen)
    return pa.RecordBatch.from_arrays([_column([row.get(name) for row in rows]) for name in names], names=names)


def _column(cells: list[Cell]) -> pa.Array:
    kinds = set(map(type, cells)) - {type(None)}
    if not kinds:
        return pa.nulls(len(cells))
    try:
        if kinds == {str}:
            return pa.array(cells, pa.string())
        if kinds == {bool}:
            return pa.array(cells, pa.bool_())
        if kinds == {int}:
            return pa.array(cells, pa.int64())
        if kinds == {float} or (kinds == {int, float} and all(map(_exact, cells))):
            return pa.array(cells, pa.float64())
    except OverflowError:
        pass  # beyond 64 bits: as text, for admission to refuse
    return pa.array([_text(cell) for cell in cells], pa.string())


def _exact(cell: Cell) -> bool:
    return not isinstance(cell, int) or -_LARGEST_EXACT <= cell <= _LARGEST_EXACT


def _text(cell: Cell) -> str | None:
    match cell:
        case None | str():
            return cell
        case bool():
            return "true" if cell else "false"
        case _:
            return repr(cell)


def _kind(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return "a string"
        case None:
            return "null"
        case bool():
            return "a boolean"
        case _:
            return "a number"


def _repeated(text: bytes) -> str | None:
    """The first duplicate member; slow, for the few suspicious rows."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                found.append(name)
            seen.add(name)

    json.loads(text, object_pairs_hook=look)
    return found[0] if found else None
