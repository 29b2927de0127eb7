"""Rows that are wanted once and follow from one entity: each entity is looked at once, before a value is taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from omnigraph.catalog.model import NodeType
from omnigraph.engine.query.frame import Frame, Mask, RowIds
from omnigraph.engine.query.predicates import read_variables, reads_values
from omnigraph.ir.model import Column, Condition, EntityRef, OutputPlan, Scalarlike

# Entities are marked by row id up to this one, a byte each; beyond it those that were seen are sorted.
_MARKS = 1 << 22


def once_variable(output: OutputPlan, values: Iterable[Scalarlike]) -> str | None:
    """Return the variable that everything about a row follows from, where equal rows are wanted once; None otherwise.

    Args:
        output: what is made of the rows.
        values: what is computed of each row.
    """
    if not output.is_distinct or output.keys is not None or output.rank is not None:
        return None
    computed = [Condition(value=value) for value in (*values, *(() if output.having is None else (output.having,)))]
    variables = frozenset[str]().union(*(read_variables(value) for value in computed))
    if len(variables) != 1 or any(reads_values(value) for value in computed):
        return None
    return min(variables)


def tells_apart(output: OutputPlan, variable: str, node: NodeType) -> bool:
    """Whether two entities never give equal rows: its id is shown, or every property of its key."""
    shown = [one.expression for one in output.shown]
    if any(isinstance(value, EntityRef) and value.variable == variable for value in shown):
        return True
    named = {value.property for value in shown if isinstance(value, Column) and value.variable == variable}
    return node.key is not None and set(node.key) <= named


def first_of_each(frames: Iterator[Frame], variable: str) -> Iterator[Frame]:
    """Yield the first row of every entity of a variable."""
    marks: Mask = np.zeros(0, dtype=np.bool_)
    listed: RowIds = np.zeros(0, dtype=np.int64)
    for frame in frames:
        ids = frame.ids[variable]
        if not frame.length:
            continue
        if not len(listed) and ids.min() >= 0 and (top := int(ids.max())) < _MARKS:
            if top >= len(marks):
                marks = np.concatenate([marks, np.zeros(top + 1 - len(marks), dtype=np.bool_)])
            is_first = _is_first(ids, top) & ~marks[ids]
            marks[ids] = True
        else:
            if len(marks):
                listed, marks = np.union1d(listed, np.flatnonzero(marks)), marks[:0]
            is_first = np.zeros(frame.length, dtype=np.bool_)
            is_first[np.unique(ids, return_index=True)[1]] = True
            is_first &= ~np.isin(ids, listed)
            listed = np.union1d(listed, ids)
        kept = frame.keep(is_first)
        if kept.length:
            yield kept


def _is_first(ids: RowIds, top: int) -> Mask:
    places = np.empty(top + 1, dtype=np.int32)
    order = np.arange(len(ids), dtype=np.int32)
    # Of several rows that write to one place the last one stays, which is the first of them when all are turned round.
    places[ids[::-1]] = order[::-1]
    return np.asarray(places[ids] == order)
