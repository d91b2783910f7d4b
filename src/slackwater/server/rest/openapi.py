"""OpenAPI document, generated from the operations that the routes are made from."""

from collections.abc import Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any, get_args

import msgspec

from slackwater import __version__
from slackwater.server.rest.errors import Problem
from slackwater.server.rest.operation import ARROW, JSON, JSON_LINES, SVG, RestOperation

_REFERENCE = "#/components/schemas/{name}"
_BEARER = "bearer"
_LIVE = (
    "Standing queries answer over a WebSocket at `/v1/live`, which OpenAPI cannot describe: see the page on the live "
    "protocol. MessagePack by default, JSON with `?encoding=json` or the subprotocol `slackwater.json`."
)


def document(operations: Sequence[RestOperation]) -> dict[str, Any]:
    """The OpenAPI document."""
    kinds = _kinds(operations)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Slackwater", "version": __version__, "description": _LIVE},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds(operations: Sequence[RestOperation]) -> list[Any]:
    """Every type that stands in a body."""
    found: dict[Any, None] = {Problem: None}
    for operation in operations:
        for bodies in (operation.takes, *operation.gives.values()):
            for kind in bodies.values():
                for part in _parts(kind):
                    found[part] = None
    return list(found)


def _parts(kind: Any) -> tuple[Any, ...]:
    if kind is None:
        return ()
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _described(operation: RestOperation, schemas: dict[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        "responses": {
            **{str(status): _answer(status, bodies, schemas) for status, bodies in operation.gives.items()},
            **{str(status): _answer(status, {JSON: Problem}, schemas) for status in sorted(operation.failures)},
        },
    }
    if operation.scope is not None:
        # Without any token made, this machine alone may ask, and needs none.
        described["security"] = [{_BEARER: []}, {}]
        described["description"] = f"Needs a token with the scope `{operation.scope}`."
    if operation.parameters:
        described["parameters"] = [
            {
                "name": one.name,
                "in": "path" if one.in_path else "header" if one.in_header else "query",
                "required": one.in_path,
                "description": one.about,
                "schema": dict(one.schema),
            }
            for one in operation.parameters
        ]
    if operation.takes:
        content = {media: {"schema": _schema(media, kind, schemas)} for media, kind in operation.takes.items()}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _answer(status: int, bodies: Any, schemas: dict[Any, Any]) -> dict[str, Any]:
    content = {media: {"schema": _schema(media, kind, schemas)} for media, kind in bodies.items()}
    return {"description": HTTPStatus(status).phrase, "content": content}


def _schema(media: str, kind: Any, schemas: dict[Any, Any]) -> Any:
    if media == ARROW:
        return {"type": "string", "format": "binary"}
    if media == SVG:
        return {"type": "string", "description": "A picture."}
    if media == JSON_LINES:
        return {"type": "string", "description": "One JSON object a line, a member for each column."}
    parts = _parts(kind)
    return schemas[parts[0]] if len(parts) == 1 else {"oneOf": [schemas[part] for part in parts]}
