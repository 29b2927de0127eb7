"""Errors of the write surfaces: changes that break a rule of the schema, rows that cannot be read."""

from __future__ import annotations

from typing import Literal

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Details, LimitExceeded
from omnigraph.errors.kinds import Kind
from omnigraph.records import record

ConstraintRule = Literal[
    "type", "required", "enum", "range", "check", "unique", "key", "endpoint", "orphan", "cardinality", "id"
]


@record
class Violation(Details):
    """One row that breaks one rule. ``source`` and ``line`` say where the row came from, when it came from a file."""

    rule: str
    type_name: str
    message: str
    property: str | None = None
    entity_id: str | None = None
    value: str | None = None
    source: str | None = None
    line: int | None = None


@record
class Violations(Details):
    """The first violations of a change in a stable order, and how many there are in all."""

    items: tuple[Violation, ...]
    total: int


class ConstraintViolationError(OmnigraphError):
    """A change breaks rules of the schema; nothing of it was written. The message is that of the first violation."""

    row = Row(code="constraint.violated", kind=Kind.INVALID, details=Violations)


class BadRowsError(OmnigraphError):
    """Input rows cannot be read or do not fit their type; nothing was written."""

    row = Row(code="load.bad_rows", kind=Kind.INVALID, details=Violations)


class ExternalBlobError(OmnigraphError):
    """A Blob was given as an address outside the graph, and the graph's policy does not allow that address."""

    row = Row(
        code="blob.external",
        kind=Kind.INVALID,
        details=BadValue,
        hint="give the content itself, as base64:… text",
    )


class MemoryBudgetError(OmnigraphError):
    """A step of a write does not fit the memory that it is allowed to use; nothing was written."""

    row = Row(
        code="engine.memory_budget",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="allow more memory, or write in smaller parts",
    )
