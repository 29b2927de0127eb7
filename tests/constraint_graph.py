"""Changes and states for the constraint evaluator, written as plain dictionaries."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.engine.constraints import find_violations
from omnigraph.engine.constraints.kernel import KernelSettings
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.lang.pg import parse_schema
from omnigraph.txn.changes import TableReplace

EVERY_TEXT = KernelSettings(uses_proofs=False, parallel_from_rows=0)


def catalog_of(text: str) -> Catalog:
    """Compile a schema."""
    return compile_schema(parse_schema(text, "test.pg"))


def owner_of(catalog, name):
    """The type called ``name``, a node type first."""
    return catalog.nodes.get(name) or catalog.edges[name]


def table_of(owner, rows):
    """Rows in the layout of their table; dates are day and millisecond counts, absent values null."""
    schema = arrow_schema(owner)
    columns = [_column([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values, kind):
    if pa.types.is_date64(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    return pa.array(values, kind)


def part(catalog, name, rows=(), **more):
    """One type's part of a change."""
    owner = owner_of(catalog, name)
    table = table_of(owner, rows) if rows else None
    return TypeChange(type=owner, rows=table, **more)


def change_of(*parts, sources=()):
    """A change made of parts."""
    return GraphChange(types={item.table_key: item for item in parts}, sources=sources)


def view_of(catalog, stored=None):
    """A state that holds ``stored`` rows by type name, all of it pending, so that no storage is asked."""
    stored = stored or {}
    owners = [*catalog.nodes.values(), *catalog.edges.values()]
    pending = {
        owner.table_key: TableReplace(table_key=owner.table_key, rows=table_of(owner, stored.get(owner.name, [])))
        for owner in owners
    }
    return GraphView(None, catalog, pending)


def found(catalog, *parts, stored=None, limit=100, sources=(), settings=None):
    """The violations of a change; the same with and without proofs, on one thread and on several."""
    change, view = change_of(*parts, sources=sources), view_of(catalog, stored)
    violations = find_violations(change, view, limit, settings=settings)
    assert find_violations(change, view, limit, settings=EVERY_TEXT) == violations
    return violations


def messages(catalog, *parts, stored=None):
    """The messages of all violations of a change, in their order."""
    violations = found(catalog, *parts, stored=stored)
    assert violations.total == len(violations.items)
    return [item.message for item in violations.items]
