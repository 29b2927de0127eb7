"""What a call is told about parameters that are legal and probably not meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.ir.check.tree import CheckedQuery, EnumUse
from omnigraph.ir.parameters import ParameterRows
from omnigraph.lang.parsing import nearest_name

# As many values of one enum are listed, and as many calls of a batch are told apart.
_SHOWN = 8


def parameter_warnings(query: CheckedQuery, given: Mapping[str, Any] | ParameterRows) -> tuple[str, ...]:
    """Return a sentence for every decoded parameter that no value of the enum it is compared with can equal."""
    if not query.enum_uses:
        return ()
    calls = given if isinstance(given, ParameterRows) else ParameterRows.of_one(given)
    found: dict[str, None] = {}
    for use in query.enum_uses:
        for value in _distinct(calls.columns[use.parameter]):
            if value not in use.values:
                found[_sentence(use, value)] = None
    return tuple(found)


def _distinct(column: Iterable[Any]) -> Iterable[str]:
    """Yield the texts of a column, of lists their items, each once."""
    seen: dict[str, None] = {}
    for value in column:
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, str):
                seen[item] = None
    return seen


def _sentence(use: EnumUse, value: str) -> str:
    shown = value if len(value) <= 60 else value[:59] + "…"
    near = nearest_name(value, use.values)
    values = ", ".join(use.values[:_SHOWN]) + (", …" if len(use.values) > _SHOWN else "")
    advice = f"did you mean '{near}'?" if near else f"expected {values}"
    return f"parameter '{use.parameter}' is '{shown}', which is not a value of '{use.name}': {advice}"
