"""Typed details: one frozen record per kind of evidence, and their JSON codec."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from omnigraph.records import record


@record
class Details:
    """Root of all details; on its own, it means that the error carries no further evidence."""


@record
class Place(Details):
    """A byte range of a source text, with what a person needs to find it.

    ``start`` and ``end`` are byte offsets into the UTF-8 source and ``end > start``; ``line`` and ``column``
    count from 1, columns in characters. ``text`` is the source line, ``width`` how many characters to underline.
    For a very long line, ``text`` is the part around the place and ``text_start`` the number of characters before it.
    """

    source: str
    start: int
    end: int
    line: int
    column: int
    text: str
    width: int = 1
    text_start: int = 0


@record
class Diagnostic(Details):
    """A finding in a schema or query: which rule, where, and what was expected."""

    rule: str | None = None
    place: Place | None = None
    expected: tuple[str, ...] = ()
    found: str | None = None
    suggestion: str | None = None


@record
class ParameterProblem(Details):
    """A query parameter that cannot be used: its name, its declared type and what was given.

    ``row`` is the number of the call within a batch, counting from 1.
    """

    name: str
    expected: str
    found: str
    row: int | None = None


@record
class MissingThing(Details):
    """A name that does not exist, and similar names that do."""

    what: str
    name: str
    near: tuple[str, ...] = ()


@record
class LimitExceeded(Details):
    """A resource limit was exceeded."""

    resource: str
    limit: int
    actual: int
    place: Place | None = None


@record
class FormatMismatch(Details):
    """Stored data whose format this version does not accept."""

    what: str
    expected: str
    found: str


@record
class BadValue(Details):
    """A value that is not what was expected."""

    what: str
    value: str
    expected: str


@record
class StorageFault(Details):
    """What the store was asked to do, where, and why it failed; never contains a secret."""

    doing: str
    location: str
    reason: str


@record
class TableRef(Details):
    """A dataset below the graph's root, its branch (None is main) and the requested version, if any."""

    location: str
    branch: str | None = None
    version: int | None = None


@record
class HeadMoved(Details):
    """The version a writer started from and the head it found; ``actual`` is None if the head could not be read."""

    location: str
    branch: str | None = None
    expected: int
    actual: int | None = None


@record
class ExistingKeys(Details):
    """Ids that already exist: the first few, and the total count."""

    location: str
    ids: tuple[str, ...]
    count: int


@record
class UnknownOutcome(Details):
    """The only version that the commit can have created, and the uuid that identifies it."""

    location: str
    branch: str | None = None
    version: int
    uuid: str


def details_to_json(details: Details) -> dict[str, Any]:
    """Return ``details`` as plain JSON values, every field present."""
    return {field.name: _encode(getattr(details, field.name)) for field in dataclasses.fields(details)}


def details_from_json(cls: type[Details], data: dict[str, Any]) -> Details:
    """Rebuild details of type ``cls``; unknown fields are ignored so that newer writers can add some."""
    hints = get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: _decode(hints[name], value) for name, value in data.items() if name in known})


def _encode(value: Any) -> Any:
    if isinstance(value, Details):
        return details_to_json(value)
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def _decode(hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        chosen = next(arg for arg in get_args(hint) if arg is not type(None))
        return _decode(chosen, value)
    if origin is tuple:
        item_hint = get_args(hint)[0]
        return tuple(_decode(item_hint, item) for item in value)
    if isinstance(hint, type) and issubclass(hint, Details):
        return details_from_json(hint, value)
    return value
