"""Requests of every operation, computed from what is declared, with a value in one place that does not belong there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from typing import Any

from omnigraph.operations import all_operations
from omnigraph.operations.json_form import _RECORDS

READ = "query q($name: String?) { match { $p: Person { name: $name } } return { $p.name } }"
ADD = "query add($name: String, $at: DateTime?) { insert Person { name: $name, at: $at } }"
SCHEMA = "node Person { name: String @key  at: DateTime?  photo: Blob?  score: F64? }\nedge Knows: Person -> Person"
# What fields without a default hold; the rest is by type.
REQUIRED = {
    "mutate.text": ADD,
    "mutate_batch.text": ADD,
    "mutate_batch.rows": [{"name": "new"}],
    "plan_schema.text": SCHEMA,
    "apply_schema.text": SCHEMA,
    "text": READ,
    "name": "other",
    "ref": "main",
    "algorithm": "pagerank",
    "write": "Person.score",
    "type_name": "Person",
    "entity_id": "ann",
    "property": "photo",
    "before": "main",
    "after": "main",
    "start": "now",
    "source": "side",
    "to": "out",
    "sources": [{"$record": "SentSource", "file": "0", "format": "jsonl"}],
    "batches": [],
    "limit": 5,
    "number": 1,
    "title": "t",
    "transaction": "none",
    "commit": "main",
    "commit_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
}
IN_TRANSACTIONS = ("mutate", "mutate_batch", "load", "query", "read_entity")
# What is inside of values that no type describes.
INSIDE: dict[str, list[tuple[Any, ...]]] = {
    "params": [("name",)],
    "rows": [(0,), (0, "name")],
    "decisions": [(0,), (0, "type"), (0, "id"), (0, "property"), (0, "resolution")],
    "batches": [
        (0,),
        *((0, name) for name in ("version", "place", "cursor", "source", "commits", "blocks", "changes")),
    ],
}
NESTED: Any = "x"
for _ in range(60):
    NESTED = [NESTED]
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, -(2**63) - 1, 10**30, 1.5, float("nan"), float("-inf"),
    "", " ", "\0", "a\0b", "\ud800", "x" * 5000, "main", "2026-01-01", "2026-01-01T00:00:00.000001+01:00",
    "/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "s3://bucket/key", "http://169.254.169.254/latest", "-",
    [], [None], [[]], ["x"], [1], {}, {"x": 1}, {"": None}, NESTED,
    {"$record": "Source", "path": "/etc/passwd"}, {"$record": "Popen"}, {"$record": []},
    {"$record": "Dialect", "quote": 7},
    {"$request": {"operation": "log"}}, {"$request": 7}, {"$request": {"operation": []}},
    {"$base64": "%"}, {"$base64": 7}, {"$base64": "AAEC"},
    {"$": "date", "v": "x"}, {"$": "datetime", "v": "2026"}, {"$": [], "v": 1}, {"$": "map", "v": [[[], 1]]},
    {"$": "decimal", "v": "NaN"},
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place of a request: the operation, the way to it, and the type that is declared there, if one is."""

    operation: str
    way: tuple[Any, ...]
    declared: str

    def __str__(self) -> str:
        return f"{self.operation}.{'.'.join(map(str, self.way))}"

    def with_value(self, value: Any) -> dict[str, Any]:
        """Return the request as a document, with a value at this place."""
        document = json.loads(json.dumps(base(self.operation, self.way)))
        inner = document
        for step, following in zip(self.way, self.way[1:], strict=False):
            inner = _child(inner, step, following)
        if isinstance(inner, list) and self.way[-1] >= len(inner):
            inner.append(value)
        else:
            inner[self.way[-1]] = value
        return document


def _child(inner: Any, step: Any, following: Any) -> Any:
    if isinstance(inner, list):
        if step >= len(inner):
            inner.append([] if isinstance(following, int) else {})
        return inner[step]
    if not isinstance(inner.get(step), dict | list):
        inner[step] = [] if isinstance(following, int) else {}
    return inner[step]


def base(operation: str, way: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return a request that makes sense, with the records that lie on a way."""
    declared = all_operations()[operation]
    document: dict[str, Any] = {"operation": operation}
    for one in fields(declared):
        if one.default is MISSING and one.name != "call":
            document[one.name] = REQUIRED.get(f"{operation}.{one.name}", REQUIRED.get(one.name))
    if operation == "call_in_transaction":
        call = way[2] if len(way) > 2 and way[:2] == ("call", "$request") else "query"
        document["call"] = {"$request": base(call)}
    for one in fields(declared):
        name = str(one.type).removesuffix(" | None")
        if way[:1] == (one.name,) and len(way) > 1 and name in _RECORDS:
            document[one.name] = {"$record": name}
    return document


def places() -> Iterator[Place]:
    """Yield every place of every operation."""
    for name in sorted(all_operations()):
        yield from _places_of(name)
    for call in IN_TRANSACTIONS:
        for place in _places_of(call):
            yield _InCall(operation="call_in_transaction", way=place.way, declared=place.declared, call=call)


@dataclass(frozen=True, kw_only=True)
class _InCall(Place):
    call: str

    def with_value(self, value: Any) -> dict[str, Any]:
        inner = Place(operation=self.call, way=self.way, declared=self.declared).with_value(value)
        return {"operation": "call_in_transaction", "transaction": "none", "call": {"$request": inner}}


def _places_of(operation: str) -> Iterator[Place]:
    for one in fields(all_operations()[operation]):
        yield Place(operation=operation, way=(one.name,), declared=str(one.type))
        for way in INSIDE.get(one.name, ()):
            yield Place(operation=operation, way=(one.name, *way), declared="")
        record = "SentSource" if one.name == "sources" else str(one.type).removesuffix(" | None")
        start = (one.name, 0) if one.name == "sources" else (one.name,)
        if one.name == "sources":
            yield Place(operation=operation, way=start, declared="")
        yield from _places_in(operation, start, record)


def _places_in(operation: str, start: tuple[Any, ...], record: str) -> Iterator[Place]:
    if record not in _RECORDS:
        return
    for one in fields(getattr(import_module(_RECORDS[record]), record)):
        yield Place(operation=operation, way=(*start, one.name), declared=str(one.type))
    if record == "SentSource":
        for name in ("path", "mapping", "options"):
            yield Place(operation=operation, way=(*start, name), declared="")
        for one in fields(import_module(_RECORDS["Dialect"]).Dialect):
            yield _InDialect(operation=operation, way=(*start, "dialect", one.name), declared=str(one.type))


class _InDialect(Place):
    def with_value(self, value: Any) -> dict[str, Any]:
        document = super().with_value(value)
        document["sources"][0]["dialect"]["$record"] = "Dialect"
        return document


_FITTING: dict[str, Any] = {
    "str": lambda value: isinstance(value, str),
    "str | bytes": lambda value: isinstance(value, str) or (isinstance(value, dict) and "$base64" in value),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "Mapping[str, str]": lambda value: isinstance(value, dict),
    "Mapping[str, Any]": lambda value: isinstance(value, dict),
    **dict.fromkeys(
        ("Iterable[str]", "Sequence[str]", "Sequence[Mapping[str, Any]]", "Sequence[Source | str]"),
        lambda value: isinstance(value, list),
    ),
    **dict.fromkeys(_RECORDS, lambda value: isinstance(value, dict)),
}


def is_of_another_type(place: Place, value: Any) -> bool:
    """Whether a value cannot be meant where the declared type is one of those that tell."""
    optional = place.declared.removesuffix(" | None")
    fits = _FITTING.get(optional)
    if fits is None or (value is None and optional != place.declared):
        return False
    return not fits(value)
