"""The steps of a plan that existing rows can contradict, checked by the evaluator that every write surface asks.

A type's rows are handed over as if all of them were being written, under a type that has nothing but the rules to be
added and the columns these speak of. So only what could be in the way is read, and it is judged and described as on
any other way into the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.migration import AddConstraint, DeclaredConstraint, MakeRequired, MigrationPlan
from omnigraph.catalog.model import ENDPOINTS, CheckRule, NodeType, PropertyDef, PropertyType, RangeRule, Scalar
from omnigraph.engine.change import GraphChange, TypeChange
from omnigraph.engine.constraints import find_violations
from omnigraph.engine.schema.lower import Continued, continued_types
from omnigraph.engine.view import GraphView
from omnigraph.errors import ConstraintViolationError, Violation, Violations
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.txn.snapshot import Snapshot

_NO_TYPES = Catalog(interfaces={}, nodes={}, edges={}, shape_hash="")
_TEXT = PropertyType(scalar=Scalar.STRING)


@record
class RowsToCheck:
    """A type with what is to be demanded of the rows it has: values of some properties, and some constraints."""

    pair: Continued
    required: tuple[MakeRequired, ...]
    constraints: tuple[DeclaredConstraint, ...]

    @property
    def table_key(self) -> str:
        """The table that holds the rows, as it is called before the change."""
        return self.pair.before.table_key


def rows_to_check(accepted: Catalog, plan: MigrationPlan) -> list[RowsToCheck]:
    """Return the types whose rows must be looked at before ``plan`` may be applied."""
    required: defaultdict[tuple[str, str], list[MakeRequired]] = defaultdict(list)
    constraints: defaultdict[tuple[str, str], list[DeclaredConstraint]] = defaultdict(list)
    for step in plan.validated_steps:
        if isinstance(step, MakeRequired):
            required[step.type_kind, step.type_name].append(step)
        elif isinstance(step, AddConstraint):
            constraints[step.type_kind, step.type_name].append(step.constraint)
    found = []
    for pair in continued_types(accepted, plan.catalog):
        kind = "node" if isinstance(pair.after, NodeType) else "edge"
        place = (kind, pair.after.name)
        if place in required or place in constraints:
            found.append(RowsToCheck(pair=pair, required=tuple(required[place]), constraints=tuple(constraints[place])))
    return found


def check_rows(checks: Sequence[RowsToCheck], snapshot: Snapshot, counters: Counters, *, limit: int = 100) -> None:
    """Return if the rows of ``snapshot`` keep what is to be demanded of them.

    Raises:
        ConstraintViolationError: some do not; the message is that of the first violation.
    """
    items: list[Violation] = []
    total = 0
    for check in checks:
        for found in (*_missing(check, snapshot, counters, limit), _broken(check, snapshot, counters, limit)):
            items += found.items
            total += found.total
    if total:
        details = Violations(items=tuple(items[:limit]), total=total)
        raise ConstraintViolationError(details.items[0].message, details=details)


def _missing(check: RowsToCheck, snapshot: Snapshot, counters: Counters, limit: int) -> list[Violations]:
    found = []
    table = snapshot.table(check.table_key, counters)
    for step in check.required:
        column = step.property_name
        prop = _property(check.pair, column)
        rows = table.read(["id"], f"`{check.pair.origins[column]}` IS NULL", counters=counters)
        rows = rows.append_column(column, pa.nulls(rows.num_rows, arrow_type(prop.type)))
        slim = NodeType(name=check.pair.after.name, properties=(prop,))
        violations = _violations(slim, rows, snapshot, counters, limit)
        coded = tuple(replace(item, message=f"[{step.code}] {item.message}") for item in violations.items)
        found.append(replace(violations, items=coded))
    return found


def _broken(check: RowsToCheck, snapshot: Snapshot, counters: Counters, limit: int) -> Violations:
    columns = sorted({column for constraint in check.constraints for column in constraint.columns})
    if not columns:
        return Violations(items=(), total=0)
    by_kind: defaultdict[str, list[DeclaredConstraint]] = defaultdict(list)
    for constraint in check.constraints:
        by_kind[constraint.kind].append(constraint)
    # Without a table of its own an edge can be judged as a node: its ends are two texts like any other.
    slim = NodeType(
        name=check.pair.after.name,
        properties=tuple(_nullable(_property(check.pair, column)) for column in columns),
        uniques=tuple(one.columns for one in by_kind["Unique"]),
        ranges=tuple(RangeRule(property=one.columns[0], low=one.low, high=one.high) for one in by_kind["Range"]),
        checks=tuple(CheckRule(property=one.columns[0], pattern=one.pattern or "") for one in by_kind["Check"]),
    )
    stored = [check.pair.origins[column] for column in columns]
    rows = snapshot.table(check.table_key, counters).read(["id", *stored], counters=counters)
    return _violations(slim, rows.rename_columns(["id", *columns]), snapshot, counters, limit)


def _violations(slim: NodeType, rows: pa.Table, snapshot: Snapshot, counters: Counters, limit: int) -> Violations:
    # All rows are in the change, so the view, which would be asked about the others, is never asked.
    part = TypeChange(type=slim, rows=rows, replaces_all=True)
    view = GraphView(snapshot, _NO_TYPES, counters)
    return find_violations(GraphChange(types={slim.table_key: part}), view, limit)


def _property(pair: Continued, name: str) -> PropertyDef:
    prop = pair.after.get(name)
    if prop is None or (name in ENDPOINTS and not isinstance(pair.after, NodeType)):
        return PropertyDef(name=name, type=_TEXT)
    return prop


def _nullable(prop: PropertyDef) -> PropertyDef:
    return replace(prop, type=replace(prop.type, nullable=True))
