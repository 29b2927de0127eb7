"""Patches: rows that say only what changes, completed from the rows that are stored."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.arrays import one_array
from omnigraph.engine.load.intake import GIVEN, LINE, SOURCE
from omnigraph.engine.rows import RowProblem
from omnigraph.engine.rows.decoder import required_problem
from omnigraph.records import record
from omnigraph.store.distinct import are_all_different


@record
class Patched:
    """Whole rows, and with their source's number the rows that cannot be completed."""

    rows: pa.Table
    problems: tuple[tuple[int, RowProblem], ...]


def columns_left_out(owner: NodeType | EdgeType, patches: pa.Table) -> list[str]:
    """Return the properties that some patch does not give."""
    return [
        prop.name for prop in owner.properties if not pc.all(patches.column(f"{GIVEN}{prop.name}"), min_count=0).as_py()
    ]


def complete(owner: NodeType | EdgeType, patches: pa.Table, stored: pa.Table) -> Patched:
    """Return patches as whole rows: what a patch does not give is taken from the stored row of its id, else null.

    Args:
        owner: the type of the rows.
        patches: spooled rows with their flags.
        stored: the stored rows of these ids, at least the columns that some patch leaves out.
    """
    old = stored.take(one_array(pc.index_in(patches.column("id"), value_set=stored.column("id"))))
    rows = patches
    problems: dict[int, tuple[int, RowProblem]] = {}
    for name in columns_left_out(owner, patches):
        field = patches.schema.field(name)
        given = one_array(patches.column(f"{GIVEN}{name}"))
        column = choose(given, one_array(patches.column(name)), one_array(old.column(name)).cast(field.type))
        rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    for prop in owner.properties:
        column = rows.column(prop.name)
        if prop.type.nullable or not column.null_count:
            continue
        for row in np.flatnonzero(column.is_null().to_numpy()).tolist():
            source, line = patches.column(SOURCE)[row].as_py(), patches.column(LINE)[row].as_py()
            problems.setdefault(row, (source, required_problem(owner, prop, line, is_given=False)))
    return Patched(rows=rows, problems=tuple(problem for _, problem in sorted(problems.items())))


def choose(given: pa.Array, new: pa.Array, old: pa.Array) -> pa.Array:
    """Return the new value where it is given, else the old one; for columns of every type."""
    count = len(given)
    places = np.arange(count)
    places[~given.to_numpy(zero_copy_only=False)] += count
    return pa.concat_arrays([new, old]).take(pa.array(places))


def last_of_each(rows: pa.Table) -> pa.Table:
    """Return the rows with, of those that share an id, only the last."""
    ids = rows.column("id")
    if are_all_different(ids):
        return rows
    numbered = pa.table({"id": ids, "at": np.arange(len(ids))})
    last = numbered.group_by("id").aggregate([("at", "max")]).column("at_max")
    return rows.take(pa.array(np.sort(last.to_numpy())))
