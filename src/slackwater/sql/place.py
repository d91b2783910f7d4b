"""Source location: line and column in the text, both counted from 1, for error messages."""

from typing import NoReturn

from sqlglot import exp

from slackwater.core.errors import NotSupported, SqlError


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    r"""Line and column of an offset; lines end with \n, \r\n or \r.

    >>> line_and_column("SELECT\r\n  x", 10)
    (2, 3)
    """
    before = text[: max(0, offset)].replace("\r\n", "\n").replace("\r", "\n")
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def offset_of(node: exp.Expr) -> int | None:
    """The offset of the first token under this node that has one."""
    own = node.meta.get("start")
    if own is not None:
        return int(own)
    starts = (part.meta.get("start") for part in node.walk())
    return min((int(start) for start in starts if start is not None), default=None)


class Text:
    """Text of a statement, to raise errors with places in it."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self.start = start

    def error(self, message: str, node: exp.Expr | None = None, kind: type[SqlError] = SqlError) -> SqlError:
        """Make the error that stands at a node; at the statement's beginning where the node has no place."""
        offset = offset_of(node) if node is not None else None
        line, column = line_and_column(self.text, self.start if offset is None else offset)
        return kind(message, line=line, column=column)

    def fail(self, message: str, node: exp.Expr | None = None) -> NoReturn:
        """Raise a `SqlError` at this node."""
        raise self.error(message, node)

    def refuse(self, message: str, node: exp.Expr | None = None) -> NoReturn:
        """Raise `NotSupported` at this node."""
        raise self.error(message, node, NotSupported)
