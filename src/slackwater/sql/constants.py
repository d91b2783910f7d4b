"""Constant folding: the value of a literal, or of simple arithmetic on literals."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sqlglot import exp

from slackwater.core.types import DataType, Scalar, instant
from slackwater.sql.place import Text

LONGEST_NUMBER = 400
"""In digits: more than any double has."""

_SHORT = 18
"""Digits of a number that is in no doubt to be within BIGINT."""

_TIMESTAMPS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of the text; None is NULL. `moment` tells a TIMESTAMP from a number."""

    value: Scalar | None
    moment: bool = False

    @property
    def described(self) -> str:
        """Description of the constant, for an error."""
        match self.value:
            case None:
                return "NULL"
            case bool():
                return f"the boolean {str(self.value).upper()}"
            case str():
                return f"the text {self.value[:40]!r}"
            case _:
                return "a timestamp" if self.moment else f"the number {str(self.value)[:40]}"


Folded: TypeAlias = Constant | None


def fold(node: exp.Expr, text: Text) -> Folded:
    """The constant that a node stands for; None where it depends on a row or cannot be computed here."""
    match node:
        case exp.Paren():
            return fold(node.this, text)
        case exp.Null():
            return Constant(None)
        case exp.Boolean():
            return Constant(bool(node.this))
        case exp.Literal():
            return Constant(str(node.this)) if node.is_string else Constant(_number(node, text))
        case exp.Neg():
            inner = fold(node.this, text)
            return None if inner is None else Constant(_negated(inner, node, text))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            left, right = fold(node.left, text), fold(node.right, text)
            return None if left is None or right is None else Constant(_arithmetic(node, left, right, text))
        case exp.Cast():
            inner = fold(node.this, text)
            if inner is None or not isinstance(inner.value, str) or not node.to.is_type(*_TIMESTAMPS):
                return None
            return Constant(moment_of(inner.value, node, text), moment=True)
    return None


def plain_literal(node: exp.Expr, kind: DataType) -> Scalar | None:
    """The value of a short literal of the type that is wanted: what `fold` and `coerce` give; None for all others."""
    if type(node) is not exp.Literal:
        return None
    written = node.args["this"]
    if node.args["is_string"]:
        return str(written) if kind is DataType.TEXT else None
    if len(written) > _SHORT or not written.isascii() or not written[0].isdigit():
        return None
    if written.isdigit():
        return int(written) if kind is DataType.BIGINT else float(written) if kind is DataType.DOUBLE else None
    if kind is not DataType.DOUBLE:
        return None
    try:
        value = float(written)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def moment_of(written: str, node: exp.Expr, text: Text) -> int:
    """The instant of a timestamp literal; it must say its time zone."""
    try:
        when = datetime.fromisoformat(written)
    except ValueError:
        text.fail(f"{written[:40]!r} is no timestamp; write one as '2026-01-31 12:00:00Z'", node)
    if when.tzinfo is None:
        text.fail(f"{written!r} has no time zone; add Z for UTC, or an offset such as +01:00", node)
    return instant(when)


def coerce(constant: Constant, kind: DataType, node: exp.Expr, text: Text, what: str) -> Scalar:
    """The constant as a value of a column's type, or an error at its place. NULL must be dealt with before.

    A number for BIGINT may come out as a float with a fraction: what that means depends on the comparison.
    """
    value = constant.value
    match kind:
        case DataType.BOOLEAN if isinstance(value, bool):
            return value
        case DataType.TEXT if isinstance(value, str):
            return value
        case DataType.TIMESTAMP if constant.moment and isinstance(value, int):
            return value
        case DataType.TIMESTAMP if isinstance(value, str):
            return moment_of(value, node, text)
        case DataType.BIGINT if _is_number(constant) and isinstance(value, int | float):
            return value
        case DataType.DOUBLE if _is_number(constant) and isinstance(value, int | float):
            return to_float(value, node, text)
    raise text.error(f"{what} is {kind.value} and cannot be compared with {constant.described}", node)


def to_float(value: int | float, node: exp.Expr, text: Text) -> float:
    """A number as a double; too large a one is an error at its place. There is only one zero."""
    try:
        number = float(value) + 0.0
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        text.fail("this number is too large for a DOUBLE", node)
    return number


def _is_number(constant: Constant) -> bool:
    return not constant.moment and not isinstance(constant.value, bool)


def _number(node: exp.Literal, text: Text) -> int | float:
    written = str(node.this)
    if len(written) > LONGEST_NUMBER:
        text.fail(f"this number has {len(written)} digits; {LONGEST_NUMBER} are the most", node)
    if written.isascii() and written.isdigit():
        return int(written)
    try:
        return to_float(float(written), node, text)
    except ValueError:
        text.fail(f"{written!r} is no number", node)


def _numbers(constants: tuple[Constant, ...], node: exp.Expr, text: Text) -> tuple[int | float, ...]:
    values = []
    for constant in constants:
        if not _is_number(constant) or not isinstance(constant.value, int | float):
            text.fail(f"arithmetic needs numbers, this is {constant.described}", node)
        values.append(constant.value)
    return tuple(values)


def _negated(inner: Constant, node: exp.Expr, text: Text) -> int | float | None:
    if inner.value is None:
        return None
    (number,) = _numbers((inner,), node, text)
    return -number


def _arithmetic(node: exp.Binary, left: Constant, right: Constant, text: Text) -> int | float | None:
    if left.value is None or right.value is None:
        return None
    a, b = _numbers((left, right), node, text)
    try:
        match node:
            case exp.Add():
                result = a + b
            case exp.Sub():
                result = a - b
            case exp.Mul():
                result = a * b
            case _:
                if b == 0:
                    text.fail("this divides by zero", node)
                if isinstance(a, int) and isinstance(b, int):
                    if a % b:
                        text.fail("whole numbers divide differently from system to system; write the result", node)
                    result = a // b
                else:
                    result = a / b
    except OverflowError:
        result = math.inf
    return to_float(result, node, text) if isinstance(result, float) else result
