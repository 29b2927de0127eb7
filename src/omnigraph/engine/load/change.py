"""Spooled rows into the change that is checked and the transaction that writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.constraints.violations import Describer, describe_taken_id
from omnigraph.engine.load.intake import GIVEN, LINE, SOURCE, ProblemList
from omnigraph.engine.load.options import LoadMode
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.load.spool import Spool
from omnigraph.engine.rows import RowProblem
from omnigraph.engine.rows.columns import default_scalar
from omnigraph.engine.rows.decoder import required_problem
from omnigraph.engine.view import GraphChange, TypeChange
from omnigraph.errors import KeyExistsError, Violation
from omnigraph.records import record
from omnigraph.store.tables.tail import are_all_different
from omnigraph.txn.changes import RowChange
from omnigraph.txn.transaction import WriteTxn, key_exists


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
    """Return patches as whole rows: what a patch does not give is taken from the stored row of its id.

    Without a stored row it is the property's default, else null.

    Args:
        owner: the type of the rows.
        patches: spooled rows with their flags.
        stored: the stored rows of these ids, at least the columns that some patch leaves out.
    """
    places = one_array(pc.index_in(patches.column("id"), value_set=stored.column("id")))
    old = stored.take(places)
    rows = patches
    problems: dict[int, tuple[int, RowProblem]] = {}
    for name in columns_left_out(owner, patches):
        field = patches.schema.field(name)
        given = one_array(patches.column(f"{GIVEN}{name}"))
        before = one_array(old.column(name)).cast(field.type)
        prop = owner.get(name)
        default = None if prop is None else default_scalar(prop)
        if default is not None and places.null_count:
            # Of rows that are stored a null is what they hold.
            before = pc.if_else(places.is_null(), default, before)
        column = choose(given, one_array(patches.column(name)), before)
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


@record
class LoadChange:
    """What a load wants to write: the change as the rules judge it, rows that repeat an id among them."""

    graph: GraphChange
    mode: LoadMode
    # What an apply writes; the other modes write the rows of the graph.
    writes: tuple[RowChange, ...] = ()

    def repeated_id(self, *, with_keys: bool = False) -> KeyExistsError | None:
        """Return the error for an id that stands twice in the input where the mode demands each once.

        Those of types with a key break a rule of the schema; only ``with_keys`` looks at them.
        """
        if self.mode in {"merge", "apply"}:
            return None
        for part in self.graph.types.values():
            if (with_keys or part.type.key is None) and part.rows is not None and not part.has_fresh_ids:
                repeated = _repeated_ids(part.rows)
                if repeated:
                    return key_exists(part.table_key, repeated)
        return None

    def rows_with(self, table_key: str, ids: pa.Array) -> Iterator[Violation]:
        """Return the rows of the input that have one of these ids, as problems."""
        part = self.graph.types[table_key]
        if part.rows is None or part.sources is None:
            return
        describer = Describer(change=self.graph, part=part)
        found = pc.is_in(part.rows.column("id"), value_set=ids).to_numpy()
        for row in np.flatnonzero(found).tolist():
            yield describe_taken_id(part.type, describer.place(row))

    def write(self, txn: WriteTxn) -> None:
        """Add the rows to a transaction."""
        for change in self.writes:
            txn.change(change)
        for part in self.graph.types.values():
            if part.rows is None:
                continue
            match self.mode:
                case "apply":
                    pass
                case "overwrite":
                    txn.replace_all(part.table_key, part.rows)
                case "append":
                    txn.insert(part.table_key, part.rows, has_fresh_ids=part.has_fresh_ids)
                case "merge":
                    if part.has_fresh_ids:
                        txn.insert(part.table_key, part.rows, has_fresh_ids=True)
                    else:
                        txn.upsert(part.table_key, last_of_each(part.rows))
                case _:
                    assert_never(self.mode)


def build_change(spool: Spool, sources: Sequence[Source], mode: LoadMode) -> LoadChange:
    """Return the change that the spooled rows make."""
    types = {
        key: _type_change(owner, spool.table(key), mode, has_fresh_ids=key in spool.fresh)
        for key, owner in spool.owners.items()
    }
    return LoadChange(graph=GraphChange(types=types, sources=tuple(source.name for source in sources)), mode=mode)


# Columns of the rows of a table that have these ids.
RowsOf = Callable[[str, pa.ChunkedArray, Sequence[str]], pa.Table]


def build_patch(spool: Spool, sources: Sequence[Source], rows_of: RowsOf, problems: ProblemList) -> LoadChange:
    """Return the change that patches make on what ``rows_of`` finds; rows that lack something are problems."""
    types = {}
    for key, owner in spool.owners.items():
        patches = spool.table(key)
        stored = rows_of(key, patches.column("id"), ["id", *columns_left_out(owner, patches)])
        patched = complete(owner, patches, stored)
        problems.add(one for number, problem in patched.problems for one in problem.violations(sources[number].name))
        if not patched.problems:
            types[key] = _type_change(owner, patched.rows, "merge", has_fresh_ids=key in spool.fresh)
    graph = GraphChange(types=types, sources=tuple(source.name for source in sources))
    return LoadChange(graph=graph, mode="merge")


def _type_change(owner: NodeType | EdgeType, spooled: pa.Table, mode: LoadMode, *, has_fresh_ids: bool) -> TypeChange:
    schema = arrow_schema(owner)
    rows = pa.Table.from_arrays([spooled.column(name) for name in schema.names], schema=schema)
    places = pa.table({"source": spooled.column(SOURCE), "line": spooled.column(LINE)})
    return TypeChange(
        type=owner,
        rows=rows,
        strict=mode == "append",
        has_fresh_ids=has_fresh_ids,
        replaces_all=mode == "overwrite",
        sources=places,
    )


def _repeated_ids(rows: pa.Table) -> list[str]:
    ids = rows.column("id")
    if are_all_different(ids):
        return []
    counts = pc.value_counts(ids)
    repeated: list[str] = counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist()
    return repeated
