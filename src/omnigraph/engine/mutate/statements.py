"""The statements of a mutation, each run on what the ones before it left.

A run of inserts reads nothing, so its values may be worked out column by column: a column whose values already have
the class that is stored becomes an Arrow array in one step. Whatever is not plainly right is left to the statements,
one after the other, which then either find it right after all or name the first that is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import NoneType
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.entity_ids import entity_id, entity_ids
from omnigraph.catalog.model import FLOATS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.comparison import Comparison, column_of, compare
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.values import RequestValues, fit_stored, repeated, stored_array, whole_row
from omnigraph.errors import ExternalBlobError, InternalError, OmnigraphError, QueryMeaningError
from omnigraph.ir.model import (
    Compare,
    Constant,
    DeletePlan,
    InsertPlan,
    MutationPlan,
    ParameterRef,
    StatementPlan,
    TargetColumn,
    UpdatePlan,
)
from omnigraph.ir.model.expressions import NOW_PARAMETER
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import IdSource
from omnigraph.store.tables.pinned import KEY


@record
class Affected:
    """How many entities statements inserted, matched or removed."""

    nodes: int = 0
    edges: int = 0

    def __add__(self, other: Affected) -> Affected:
        return Affected(nodes=self.nodes + other.nodes, edges=self.edges + other.edges)


_Refused: TypeAlias = Mapping[str, OmnigraphError]


@record
class Statements:
    """Runs statements: they read and change ``staging`` and nothing else."""

    catalog: Catalog
    staging: MutationStaging
    given: RequestValues
    ids: IdSource
    # Which of several calls it is, counted from 1.
    row: int | None = None

    def run(self, statement: StatementPlan) -> Affected:
        """Run one statement.

        Raises:
            QueryMeaningError: a value does not fit the property it is assigned to.
            ExternalBlobError: a Blob is given as an address outside the graph.
        """
        match statement:
            case InsertPlan():
                return self._insert_node(statement) if statement.entity == "node" else self._insert_edge(statement)
            case UpdatePlan():
                return self._update(statement)
            case DeletePlan():
                return self._delete_nodes(statement) if statement.entity == "node" else self._delete_edges(statement)
            case _:
                assert_never(statement)

    def _insert_node(self, plan: InsertPlan) -> Affected:
        node = self.catalog.nodes[plan.type_name]
        values, refused = self._assigned(node, plan)
        self._insert(node, whole_row(node, values), refused)
        return Affected(nodes=1)

    def _insert_edge(self, plan: InsertPlan) -> Affected:
        edge = self.catalog.edges[plan.type_name]
        ends = {"src": self.given.end(edge, "from", plan.from_id), "dst": self.given.end(edge, "to", plan.to_id)}
        values, refused = self._assigned(edge, plan)
        self._insert(edge, {**ends, **whole_row(edge, values)}, refused)
        return Affected(edges=1)

    def _insert(self, owner: NodeType | EdgeType, values: dict[str, object], refused: _Refused) -> None:
        is_made = owner.key is None
        chosen = str(self.ids.ulid()) if is_made else entity_id(owner, values)
        self.staging.pending(owner).insert(chosen, values, is_made=is_made)
        self._note(owner, [chosen], values, refused)

    def _update(self, plan: UpdatePlan) -> Affected:
        node = self.catalog.nodes[plan.type_name]
        assigned, refused = self._assigned(node, plan)
        schema = self.staging.pending(node).schema
        matched = self.staging.find(node, self._comparison(node, plan.where), schema.names)
        for name, value in assigned.items():
            column = repeated(value, _type_of(node, name), schema.field(name).type, matched.num_rows)
            matched = matched.set_column(schema.get_field_index(name), schema.field(name), column)
        if matched.num_rows:
            self.staging.pending(node).put(matched)
            self._note(node, matched.column(KEY).to_pylist(), assigned, refused)
        elif refused:
            # Whether it is an error must not depend on whether a row matches.
            raise next(iter(refused.values()))
        return Affected(nodes=matched.num_rows)

    def _delete_nodes(self, plan: DeletePlan) -> Affected:
        node = self.catalog.nodes[plan.type_name]
        ids = self._take(node, plan)
        edges = 0
        for name in plan.cascades if ids else ():
            edge = self.catalog.edges[name]
            touching = self.staging.find_edges(edge, node, pa.array(sorted(ids), pa.string()))
            self.staging.pending(edge).remove(touching)
            self.staging.refused.forget(edge.table_key, touching)
            edges += len(touching)
        return Affected(nodes=len(ids), edges=edges)

    def _delete_edges(self, plan: DeletePlan) -> Affected:
        return Affected(edges=len(self._take(self.catalog.edges[plan.type_name], plan)))

    def _take(self, owner: NodeType | EdgeType, plan: DeletePlan) -> Collection[str]:
        """Remove what matches and return its ids."""
        found = self.staging.find(owner, self._comparison(owner, plan.where), [KEY])
        ids: list[str] = found.column(KEY).to_pylist()
        self.staging.pending(owner).remove(ids)
        self.staging.refused.forget(owner.table_key, set(ids))
        return ids

    def _assigned(
        self, owner: NodeType | EdgeType, plan: InsertPlan | UpdatePlan
    ) -> tuple[dict[str, object], _Refused]:
        """Return what each property stores, and for Blobs that cannot be stored the error in case they stay.

        No statement can ask for the content of a Blob, so that the mutation may go on without it.
        """
        values: dict[str, object] = {}
        refused: dict[str, OmnigraphError] = {}
        for assign in plan.assigns:
            try:
                values[assign.property] = self.given.stored(owner, assign)
            except (ExternalBlobError, QueryMeaningError) as problem:
                if assign.type.scalar is not Scalar.BLOB or self.given.value(assign.value) is None:
                    raise
                values[assign.property] = b""
                refused[assign.property] = problem
        return values, refused

    def _note(self, owner: NodeType | EdgeType, ids: Sequence[str], names: Iterable[str], refused: _Refused) -> None:
        """Take down which properties rows got, and which of the values cannot be stored."""
        if self.row is not None:
            refused = {name: _in_row(problem, self.row) for name, problem in refused.items()}
        self.staging.refused.assign(owner.table_key, ids, names, refused)

    def _comparison(self, owner: NodeType | EdgeType, where: Compare) -> Comparison:
        left, right = where.left, where.right
        if not isinstance(left, TargetColumn) or not isinstance(right, Constant | ParameterRef):
            raise InternalError(f"a statement compares something else than a property with a value: {where}")
        column = replace(left, property=column_of(owner, left.property))
        return compare(column, where.op, self.given.value(right), right.type)


def _in_row(problem: OmnigraphError, row: int) -> OmnigraphError:
    """Return the error of one of several calls."""
    return type(problem)(f"row {row}: {problem.message}", details=problem.details, hint=problem.hint)


def _type_of(owner: NodeType, name: str) -> PropertyType:
    prop = owner.get(name)
    if prop is None:
        raise InternalError(f"a plan assigns a property that its type does not have: {owner.name}.{name}")
    return prop.type


_Expressions: TypeAlias = Mapping[str, Constant | ParameterRef | None]

_TEXT = PropertyType(scalar=Scalar.STRING)
# The class of values that are stored as they are, once their range is known to fit.
_CLASSES: Mapping[Scalar, type] = {
    Scalar.STRING: str,
    Scalar.BOOL: bool,
    Scalar.I32: int,
    Scalar.I64: int,
    Scalar.U32: int,
    Scalar.U64: int,
    Scalar.F32: float,
    Scalar.F64: float,
    Scalar.DATE: int,
    Scalar.DATETIME: int,
}


def insert_tables(
    statements: Sequence[InsertPlan], calls: ParameterRows, *, catalog: Catalog, now_ms: int, ids: IdSource
) -> list[tuple[NodeType | EdgeType, pa.Table]] | None:
    """Return the rows that inserts make, per type in the order in which they are inserted, or None when unsure.

    Args:
        statements: a run of inserts.
        calls: the parameters of each time that the whole run is made.
        catalog: the schema.
        now_ms: the instant of the request.
        ids: makes up the ids of types without a key.
    """
    given = ParameterRows(columns={**calls.columns, NOW_PARAMETER: [now_ms] * calls.count}, count=calls.count)
    by_type: dict[tuple[str, str], list[InsertPlan]] = {}
    for statement in statements:
        by_type.setdefault((statement.entity, statement.type_name), []).append(statement)
    found: list[tuple[NodeType | EdgeType, pa.Table]] = []
    for (entity, name), plans in by_type.items():
        owner: NodeType | EdgeType = catalog.nodes[name] if entity == "node" else catalog.edges[name]
        rows = _rows(owner, plans, given, ids)
        if rows is None:
            return None
        found.append((owner, rows))
    return found


def _rows(
    owner: NodeType | EdgeType, plans: Sequence[InsertPlan], calls: ParameterRows, ids: IdSource
) -> pa.Table | None:
    schema = arrow_schema(owner)
    columns: dict[str, pa.Array] = {}
    assigned = [_expressions(plan) for plan in plans]
    for name, of in _columns(owner):
        column = _stored(_values([one.get(name) for one in assigned], calls), of, owner, schema.field(name))
        if column is None:
            return None
        columns[name] = column
    count = len(plans) * calls.count
    try:
        made = [str(ids.ulid()) for _ in range(count)] if owner.key is None else None
        columns[KEY] = entity_ids(owner, columns) if made is None else pa.array(made, pa.string())
    except OmnigraphError:
        return None
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _columns(owner: NodeType | EdgeType) -> Iterator[tuple[str, PropertyType]]:
    if isinstance(owner, EdgeType):
        yield from (("src", _TEXT), ("dst", _TEXT))
    yield from ((prop.name, prop.type) for prop in owner.properties)


def _expressions(plan: InsertPlan) -> _Expressions:
    assigned: dict[str, Constant | ParameterRef | None] = {item.property: item.value for item in plan.assigns}
    if plan.entity == "edge":
        assigned |= {"src": plan.from_id, "dst": plan.to_id}
    return assigned


def _values(expressions: Sequence[Constant | ParameterRef | None], calls: ParameterRows) -> list[Any]:
    """Return the decoded values of one column: all statements of the first call, then of the next."""
    if calls.count == 1:
        columns = calls.columns
        return [
            None if item is None else item.value if isinstance(item, Constant) else columns[item.name][0]
            for item in expressions
        ]
    values: list[Any] = [None] * (len(expressions) * calls.count)
    for place, item in enumerate(expressions):
        if isinstance(item, Constant):
            values[place :: len(expressions)] = [item.value] * calls.count
        elif item is not None:
            values[place :: len(expressions)] = calls.columns[item.name]
    return values


def _stored(values: list[Any], of: PropertyType, owner: NodeType | EdgeType, field: pa.Field) -> pa.Array | None:
    """Return a column as it is stored, or None when some value does not plainly fit."""
    kinds = set(map(type, values))
    if NoneType in kinds and not field.nullable:
        return None
    kinds.discard(NoneType)
    try:
        if of.is_list or not kinds <= {_CLASSES.get(of.scalar)}:
            values = [fit_stored(value, of, owner, field.name) for value in values]
        array = stored_array(values, field.type)
    except (OmnigraphError, pa.ArrowException, OverflowError, UnicodeError):
        return None
    if of.scalar in FLOATS and not of.is_list and not pc.all(pc.is_finite(array), min_count=0).as_py():
        return None
    return array if isinstance(array, pa.Array) else None


# Fewer inserts than this are quicker one by one.
_WORTH_COLUMNS = 8


@record
class CallRunner:
    """Runs calls: they read and change ``staging`` and nothing else."""

    catalog: Catalog
    staging: MutationStaging
    now_ms: int
    ids: IdSource

    def run(self, plan: MutationPlan, calls: ParameterRows) -> Affected:
        """Run every call in order.

        Raises:
            QueryMeaningError: a value does not fit the property it is assigned to.
            ExternalBlobError: a Blob is given as an address outside the graph.
        """
        runs = [tuple(run) for _, run in groupby(plan.statements, key=lambda item: isinstance(item, InsertPlan))]
        if len(runs) == 1:
            # Inserts do not see each other, so all calls together are one long run of them.
            done = self._insert_all(runs[0], calls)
            if done is not None:
                return done
        run_one = self._run_statements if len(runs) == 1 else self._run_one
        affected = Affected()
        for number in range(calls.count):
            one = calls if calls.count == 1 else ParameterRows.of_one(calls.row(number))
            row = None if calls.count == 1 else number + 1
            try:
                affected = sum((run_one(run, one, row) for run in runs), affected)
            except (QueryMeaningError, ExternalBlobError) as problem:
                if row is None:
                    raise
                raise _in_row(problem, row) from problem
        return affected

    def _run_one(self, run: Sequence[StatementPlan], call: ParameterRows, row: int | None) -> Affected:
        done = self._insert_all(run, call)
        return self._run_statements(run, call, row) if done is None else done

    def _run_statements(self, run: Sequence[StatementPlan], call: ParameterRows, row: int | None) -> Affected:
        statements = Statements(
            catalog=self.catalog,
            staging=self.staging,
            given=RequestValues(parameters=call.row(0), now_ms=self.now_ms),
            ids=self.ids,
            row=row,
        )
        return sum(map(statements.run, run), Affected())

    def _insert_all(self, run: Sequence[StatementPlan], calls: ParameterRows) -> Affected | None:
        """Make a run of inserts at once; None when it is not one, or not plainly right."""
        inserts = [statement for statement in run if isinstance(statement, InsertPlan)]
        if len(inserts) < len(run) or len(inserts) * calls.count < _WORTH_COLUMNS:
            return None
        found = insert_tables(inserts, calls, catalog=self.catalog, now_ms=self.now_ms, ids=self.ids)
        if found is None:
            return None
        affected = Affected()
        for owner, rows in found:
            self.staging.pending(owner).insert_rows(rows, is_made=owner.key is None)
            if self.staging.refused:
                self.staging.refused.forget(owner.table_key, set(rows.column(KEY).to_pylist()))
            is_node = isinstance(owner, NodeType)
            affected += Affected(nodes=rows.num_rows if is_node else 0, edges=0 if is_node else rows.num_rows)
        return affected
