"""REST errors: `{"error": code, "message": sentence}` and the right status."""

from http import HTTPStatus
from typing import TypeAlias

import msgspec
from starlette.responses import Response

from slackwater.core.errors import (
    AlgebraError,
    AnswerTooLarge,
    LogError,
    LogFull,
    NotSupported,
    OutcomeUnknown,
    PositionGone,
    SchemaError,
    SlackwaterError,
    SqlError,
    StoreError,
)
from slackwater.evaluator import TooLarge, TooSlow
from slackwater.intake import RequestKeyReused, TooManyRequestKeys
from slackwater.server.group_commit import Busy
from slackwater.sessions.registrar import RegistrationRefused

Headers: TypeAlias = dict[str, str]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Body of an error answer. `line` and `column` point into the statement, counted from 1."""

    error: str
    message: str
    line: int | None = None
    column: int | None = None


class RequestRefused(SlackwaterError):
    """A request that is refused with this status."""

    def __init__(self, status: HTTPStatus, code: str, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers or {}


_STATUS: tuple[tuple[type[SlackwaterError], HTTPStatus, str], ...] = (
    (NotSupported, HTTPStatus.BAD_REQUEST, "not_supported"),
    (SqlError, HTTPStatus.BAD_REQUEST, "sql"),
    (SchemaError, HTTPStatus.CONFLICT, "schema"),
    (AlgebraError, HTTPStatus.BAD_REQUEST, "sql"),
    (AnswerTooLarge, HTTPStatus(413), "limit"),
    (TooLarge, HTTPStatus.CONTENT_TOO_LARGE if hasattr(HTTPStatus, "CONTENT_TOO_LARGE") else HTTPStatus(413), "limit"),
    (TooSlow, HTTPStatus(422), "limit"),
    (RequestKeyReused, HTTPStatus(422), "key_reused"),
    (TooManyRequestKeys, HTTPStatus.TOO_MANY_REQUESTS, "keys"),
    (Busy, HTTPStatus.TOO_MANY_REQUESTS, "busy"),
    (PositionGone, HTTPStatus.GONE, "gone"),
    (LogFull, HTTPStatus.SERVICE_UNAVAILABLE, "full"),
    (OutcomeUnknown, HTTPStatus.SERVICE_UNAVAILABLE, "outcome_unknown"),
    (LogError, HTTPStatus.SERVICE_UNAVAILABLE, "log"),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE, "store"),
)


def status_and_code(error: SlackwaterError) -> tuple[HTTPStatus, str]:
    """The status of an error and its name for programs."""
    if isinstance(error, RegistrationRefused):
        return HTTPStatus.CONFLICT, error.code
    if isinstance(error, RequestRefused):
        return error.status, error.code
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return status, code
    return HTTPStatus.BAD_REQUEST, "refused"


def answer(error: SlackwaterError) -> Response:
    """An error as a response."""
    status, code = status_and_code(error)
    if isinstance(error, RequestRefused):
        return problem(status, code, str(error), headers=error.headers)
    if isinstance(error, SqlError):
        return problem(status, code, error.message, error.line, error.column)
    return problem(status, code, str(error), headers={"retry-after": "1"} if status in (429, 503) else {})


def problem(
    status: int,
    code: str,
    message: str,
    line: int | None = None,
    column: int | None = None,
    headers: Headers | None = None,
) -> Response:
    """The response itself."""
    body = msgspec.json.encode(Problem(code, message, line, column))
    return Response(body, status, headers, media_type="application/json")
