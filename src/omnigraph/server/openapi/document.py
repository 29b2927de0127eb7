"""The OpenAPI document: made of the tables beside it, checked in as files, and served from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omnigraph.distribution import VERSION
from omnigraph.server.openapi import components, operations
from omnigraph.server.openapi.operations import Parameter, Row

BASE_LEVEL, FULL_LEVEL = "0.10", "0.13"
LEVEL_HEADER = "omnigraph-http-api"
_FILES = {BASE_LEVEL: "base.json", FULL_LEVEL: "openapi.json"}
_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "minimum": 0},
    "u32": {"type": "integer", "format": "int32", "minimum": 0},
    "u64": {"type": "integer", "format": "int64", "minimum": 0},
    "i64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "object": {"type": "object"},
    "any": {},
}
_DESCRIPTIONS = {
    200: "Done",
    206: "A part of the content",
    302: "The content is elsewhere",
    304: "The content has not changed",
    400: "The request is wrong",
    401: "No token, or an invalid one",
    403: "Not allowed",
    404: "Not found",
    405: "The path does not take this method",
    408: "It took longer than allowed",
    409: "It conflicts with the current state",
    410: "The history that it needs was reclaimed",
    412: "The state differs from the expected one",
    413: "Too large, or too many at the same time",
    415: "A body of another type is expected",
    416: "The range begins after the end",
    424: "A system that it depends on failed",
    429: "Too many requests at the same time",
    500: "The server failed",
    501: "Not supported",
    503: "Not now",
}


def knows_additions(headers: Mapping[str, str]) -> bool:
    """Whether a caller says that it knows the additions to the base: by ``Omnigraph-Http-Api: 0.13``, or a later one.

    >>> knows_additions({"omnigraph-http-api": "0.13"}), knows_additions({"omnigraph-http-api": "0.9"})
    (True, False)
    """
    given = headers.get(LEVEL_HEADER, "").strip().split(".")
    if len(given) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in given):
        return False
    return [int(part) for part in given] >= [int(part) for part in FULL_LEVEL.split(".")]


def document_file(level: str = BASE_LEVEL) -> Path:
    """Return where the document of a wire level is checked in."""
    return Path(__file__).parent / _FILES[level]


@cache
def served_document(*, has_auth: bool, level: str = BASE_LEVEL) -> bytes:
    """Return the document as it is served: of this version, without security where no token is demanded."""
    document = json.loads(document_file(level).read_text(encoding="utf-8"))
    document["info"]["version"] = VERSION
    if not has_auth:
        del document["components"]["securitySchemes"]
        for methods in document["paths"].values():
            for operation in methods.values():
                operation.pop("security", None)
    return json.dumps(document, separators=(",", ":")).encode()


def build_document(level: str = BASE_LEVEL) -> str:
    """Return the text of the file of a wire level."""
    is_full = level == FULL_LEVEL
    rows = [*operations.BASE, *(operations.ADDED if is_full else ())]
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        more = operations.EXTENDED_PARAMETERS.get(row.name, ()) if is_full else ()
        paths.setdefault(row.path, {})[row.method] = _operation(row, more)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Omnigraph API",
            "description": "HTTP API for the Omnigraph graph database",
            "license": {"name": "MIT", "identifier": "MIT"},
            "version": VERSION,
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(is_full=is_full),
            "securitySchemes": {"bearer_token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _schemas(*, is_full: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: {"type": "string", "enum": list(words)} for name, words in components.ENUMERATIONS.items()
    }
    members = {**components.BASE, **(components.ADDED if is_full else {})}
    for name, text in members.items():
        more = components.EXTENDED.get(name) if is_full else None
        found[name] = _component(text if more is None else f"{text}; {more}")
    found["ExportRequest"]["additionalProperties"] = False
    found["InvokeStoredQueryResponse"] = {"oneOf": [_reference("ReadOutput"), _reference("ChangeOutput")]}
    return dict(sorted(found.items()))


def _component(text: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for member in text.split(";"):
        name, _, kind = member.strip().partition(": ")
        properties[name.removesuffix("?")] = _type(kind)
        if not name.endswith("?"):
            required.append(name)
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _type(text: str) -> dict[str, Any]:
    kind, _, null = text.partition("|")
    if kind.endswith("[]"):
        found: dict[str, Any] = {"type": "array", "items": _type(kind.removesuffix("[]"))}
    else:
        found = dict(_SCALARS[kind]) if kind in _SCALARS else _reference(kind)
    if not null:
        return found
    return {"oneOf": [{"type": "null"}, found]} if "$ref" in found else {**found, "type": [found["type"], "null"]}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _operation(row: Row, more: tuple[Parameter, ...]) -> dict[str, Any]:
    graph = (
        [Parameter(name="graph_id", place="path", is_required=True)] if row.path.startswith(operations.GRAPH) else []
    )
    parameters = [_parameter(item) for item in (*graph, *row.parameters, *more)]
    responses = {"200": _success(row)}
    for status in row.statuses.split():
        responses[status] = _failure(row, int(status))
    return {
        "tags": [row.tag],
        "summary": row.summary,
        "operationId": row.name,
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": _body(row.body)} if row.body else {}),
        "responses": responses,
        **({"deprecated": True} if row.is_deprecated else {}),
        **({} if row.is_public else {"security": [{"bearer_token": []}]}),
    }


def _parameter(item: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": item.kind}
    if item.kind == "integer":
        schema |= {"minimum": 1}
    if item.words:
        schema["enum"] = list(item.words)
    if item.is_repeated:
        schema = {"type": "array", "items": schema}
    exploded = {"style": "form", "explode": True} if item.is_repeated else {}
    return {"name": item.name, "in": item.place, "required": item.is_required, "schema": schema, **exploded}


def _body(text: str) -> dict[str, Any]:
    if text == "ndjson":
        return {"required": True, "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
    if text.endswith("?"):
        schema = {"oneOf": [{"type": "null"}, _reference(text.removesuffix("?"))]}
        return {"required": False, "content": {"application/json": {"schema": schema}}}
    return {"required": True, "content": {"application/json": {"schema": _reference(text)}}}


def _success(row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {"description": _DESCRIPTIONS[200]}
    if not row.answer:
        return told
    if row.answer == "object":
        return {**told, "content": {"application/json": {"schema": {"type": "object"}}}}
    media, _, name = row.answer.partition(" ")
    if "/" not in media:
        return {**told, "content": {"application/json": {"schema": _reference(media)}}}
    if media == "application/octet-stream":
        return {**told, "content": {media: {"schema": {"type": "string", "format": "binary"}}}}
    return {**told, "content": {media: {"schema": _reference(name)} if name else {}}}


def _failure(row: Row, status: int) -> dict[str, Any]:
    told: dict[str, Any] = {"description": _DESCRIPTIONS[status]}
    if status == 206:
        return {**told, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
    if not row.error or status in {302, 304}:
        return told
    return {**told, "content": {"application/json": {"schema": _reference(row.error)}}}
