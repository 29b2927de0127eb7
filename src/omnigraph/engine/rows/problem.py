"""What is wrong with one input row, in words that a person can act on."""

from __future__ import annotations

from typing import Any

from omnigraph.errors import Violation
from omnigraph.records import record

# As many problems of one input are looked at; what is wrong so often is wrong as a whole, and looking costs time.
MAX_PROBLEMS = 100_000

_SHOWN = 80


@record
class RowProblem:
    """One row that cannot be read: where it stands, the rule it breaks, and the value that breaks it.

    ``line`` counts from 1: lines of a JSONL or CSV file, of which a record has its first; rows of a Parquet file.
    """

    line: int
    rule: str
    message: str
    type_name: str = ""
    property: str | None = None
    value: str | None = None

    def violation(self, source: str) -> Violation:
        """Return the problem as errors carry it."""
        return Violation(
            rule=self.rule,
            type_name=self.type_name,
            message=self.message,
            property=self.property,
            value=self.value,
            source=source,
            line=self.line,
        )


def show(value: Any) -> str:
    """Return a value as messages show it: short, whatever its size.

    >>> show("a" * 200)[-3:], show([1, 2]), show(True)
    ('a…"', 'an array', 'true')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"' if len(value) <= _SHOWN else f'"{value[:_SHOWN]}…"'
        case bytes():
            return show(value[: _SHOWN + 1].decode(errors="replace"))
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            text = str(value)
            return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def kind_of(value: Any) -> str:
    """Return what a JSON value is, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number with a fraction or exponent"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
