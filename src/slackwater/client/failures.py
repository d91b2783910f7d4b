"""Error mapping: a server's refusal as an exception of the one tree of errors.

A server answers with `{"error": code, "message": sentence}` and, where the trouble is in a statement, its line and
column. A refused subscription says the same in one sentence.
"""

import re
from typing import Any, Final

import msgspec

from slackwater.core.errors import (
    LogError,
    NotSupported,
    PositionGone,
    SchemaError,
    SlackwaterError,
    SqlError,
    StoreError,
)


class Refused(SlackwaterError):
    """The server understood and does not do it; `status` and `code` are as in its answer."""

    def __init__(self, message: str, *, status: int | None = None, code: str = "refused") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Unauthorized(Refused):
    """The server does not know the token, or wants one."""


class Forbidden(Refused):
    """The token is known, and may not do this."""


class Misunderstood(SlackwaterError):
    """The response is not that of a Slackwater server."""


_PLAIN: Final[dict[str, type[SlackwaterError]]] = {
    "schema": SchemaError,
    "gone": PositionGone,
    "log": LogError,
    "store": StoreError,
}
_PLACE: Final = re.compile(r"line (\d{1,9}), column (\d{1,9}): (.*)", re.DOTALL)
_LONGEST: Final = 2_000
"""Characters of a server's sentence that are passed on."""


def of_answer(status: int, body: bytes, address: str) -> SlackwaterError:
    """The error that an answer of a server means."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        fields = {}
    code, message = fields.get("error"), fields.get("message")
    if not isinstance(code, str) or not isinstance(message, str) or not message:
        return Misunderstood(
            f"{address} answered with status {status} and not as a Slackwater server does: check the address"
        )
    line, column = (fields.get(name) for name in ("line", "column"))
    place = (line if isinstance(line, int) else 1, column if isinstance(column, int) else 1)
    return of_refusal(status, code, message, address, place)


def of_refusal(
    status: int, code: str, message: str, address: str = "the server", place: tuple[int, int] = (1, 1)
) -> SlackwaterError:
    """The error that a refusal by status, code and sentence means; `place` is where a statement is wrong."""
    message = message[:_LONGEST]
    if code in ("sql", "not_supported"):
        kind = SqlError if code == "sql" else NotSupported
        return kind(message, line=place[0], column=place[1])
    if code in _PLAIN:
        return _PLAIN[code](message)
    if status == 401:
        return Unauthorized(f"{address} wants another token: {message}", status=status, code=code)
    if status == 403:
        return Forbidden(f"{address} does not allow this: {message}", status=status, code=code)
    return Refused(message, status=status, code=code)


def of_sentence(why: str) -> SlackwaterError:
    """The error that the refusal of a subscription means.

    >>> of_sentence("line 1, column 8: there is no table quotes").column
    8
    """
    placed = _PLACE.fullmatch(why[:_LONGEST])
    if placed is not None:
        return SqlError(placed[3], line=int(placed[1]), column=int(placed[2]))
    return Refused(why[:_LONGEST])
