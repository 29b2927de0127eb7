"""Predicates as a storage filter. It may let through too much, never too little: rows are asked again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from omnigraph.engine.comparison import compare
from omnigraph.engine.query.values.exact import FLIPPED
from omnigraph.ir.model import (
    Column,
    Compare,
    Constant,
    ParameterRef,
    Predicate,
    TargetColumn,
    TextContains,
    TextStartsWith,
)

Given = Callable[[Constant | ParameterRef], Any]


def storage_filter(predicates: Iterable[Predicate], given: Given) -> str | None:
    """Return what storage can be asked of predicates on one variable; None when that is nothing."""
    parts = [part for part in (_render(predicate, given) for predicate in predicates) if part is not None]
    return " AND ".join(f"({part})" for part in parts) or None


def _render(predicate: Predicate, given: Given) -> str | None:
    if isinstance(predicate, Compare):
        return _comparison(predicate, given)
    if isinstance(predicate, TextContains | TextStartsWith):
        name = "contains" if isinstance(predicate, TextContains) else "starts_with"
        needle = predicate.needle if isinstance(predicate, TextContains) else predicate.prefix
        if isinstance(predicate.text, Column) and isinstance(needle, Constant | ParameterRef):
            value = given(needle)
            return "false" if value is None else f"{name}(`{predicate.text.property}`, {_quoted(value)})"
    return None


def _comparison(predicate: Compare, given: Given) -> str | None:
    left, op, right = predicate.left, predicate.op, predicate.right
    if not isinstance(left, Column):
        left, op, right = right, FLIPPED[op], left
    if not isinstance(left, Column) or not isinstance(right, Constant | ParameterRef):
        return None
    comparison = compare(TargetColumn(property=left.property, type=left.type), op, given(right), right.type)
    return "false" if comparison.is_never else comparison.sql()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
