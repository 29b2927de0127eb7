"""The statements of a mutation, each run on what the ones before it left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias, assert_never

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import EdgeType, NodeType, Scalar
from omnigraph.engine.comparison import Comparison, column_of, compare, one_array
from omnigraph.engine.mutate.assigning import assigned_column, changed_rows, computed_column
from omnigraph.engine.mutate.insert_columns import insert_tables
from omnigraph.engine.mutate.rows import ConditionTest, StatementRows, decoded_values
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.values import RequestValues, fit_end, fit_stored, repeated, whole_row
from omnigraph.errors import ExternalBlobError, InternalError, OmnigraphError, QueryMeaningError, QueryRuntimeError
from omnigraph.ir.model import (
    TARGET,
    Assign,
    Compare,
    Condition,
    Constant,
    DeletePlan,
    EntityKind,
    InsertPlan,
    MutationPlan,
    ParameterRef,
    Scalarlike,
    StatementPlan,
    TargetColumn,
    UpdatePlan,
)
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import IdSource
from omnigraph.store.tables.pinned import KEY


@record
class Affected:
    """How many entities statements inserted, matched or removed, and what became of them."""

    nodes: int = 0
    edges: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0

    @classmethod
    def of(cls, owner: NodeType | EdgeType, count: int, **what: int) -> Affected:
        """Return so many entities of a type."""
        is_node = isinstance(owner, NodeType)
        return cls(nodes=count if is_node else 0, edges=0 if is_node else count, **what)

    def __add__(self, other: Affected) -> Affected:
        return Affected(
            nodes=self.nodes + other.nodes,
            edges=self.edges + other.edges,
            inserted=self.inserted + other.inserted,
            updated=self.updated + other.updated,
            deleted=self.deleted + other.deleted,
            unchanged=self.unchanged + other.unchanged,
        )


_Refused: TypeAlias = Mapping[str, OmnigraphError]
_Values: TypeAlias = dict[str, Any]


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
            QueryMeaningError, QueryRuntimeError: a value does not fit the property it is assigned to.
            ExternalBlobError: a Blob is given as an address outside the graph.
        """
        match statement:
            case InsertPlan():
                return self._insert(statement, StatementRows(self.given, 1))
            case UpdatePlan():
                return self._update(statement)
            case DeletePlan():
                return self._delete(statement)
            case _:
                assert_never(statement)

    def _insert(self, plan: InsertPlan, rows: StatementRows) -> Affected:
        """Insert one entity per row."""
        owner = self._owner(plan.entity, plan.type_name)
        given, refused = self._assigned(owner, plan.assigns)
        columns = {
            assign.property: self._computed(owner, assign, rows)
            for assign in plan.assigns
            if assign.property not in given
        }
        ends = self._ends(owner, plan, rows) if isinstance(owner, EdgeType) else {}
        for at in range(rows.length):
            values = given | {name: column[at] for name, column in columns.items()}
            row = {**{name: column[at] for name, column in ends.items()}, **whole_row(owner, values)}
            self._put(owner, row, refused)
        return Affected.of(owner, rows.length, inserted=rows.length)

    def _put(self, owner: NodeType | EdgeType, values: _Values, refused: _Refused) -> None:
        is_made = owner.key is None
        chosen = str(self.ids.ulid()) if is_made else entity_id(owner, values)
        self.staging.pending(owner).insert(chosen, values, is_made=is_made)
        self._note(owner, [chosen], values, refused)

    def _computed(self, owner: NodeType | EdgeType, assign: Assign, rows: StatementRows) -> list[Any]:
        """Return what a property stores for each row."""
        found = decoded_values(computed_column(assign.value, rows, owner))
        return [fit_stored(value, assign.type, owner, assign.property) for value in found]

    def _ends(self, owner: EdgeType, plan: InsertPlan, rows: StatementRows) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for column, name, end in (("src", "from", plan.from_id), ("dst", "to", plan.to_id)):
            values = [None] * rows.length if end is None else self._value(owner, end, rows)
            found[column] = [fit_end(value, owner, name) for value in values]
        return found

    def _value(self, owner: NodeType | EdgeType, value: Scalarlike, rows: StatementRows) -> list[Any]:
        if isinstance(value, Constant | ParameterRef):
            return [self.given.value(value)] * rows.length
        return decoded_values(computed_column(value, rows, owner))

    def _update(self, plan: UpdatePlan) -> Affected:
        owner = self._owner(plan.entity, plan.type_name)
        schema = self.staging.pending(owner).schema
        given, refused = self._assigned(owner, plan.assigns)
        matched = self.staging.find(owner, self._test(owner, plan.where), schema.names)
        if not matched.num_rows and refused:
            # Whether it is an error must not depend on whether a row matches.
            raise next(iter(refused.values()))
        rows = StatementRows(self.given, matched.num_rows, {TARGET: matched})
        after = self._changed(owner, plan.assigns, matched, rows, given)
        if not after.num_rows:
            return Affected()
        self.staging.pending(owner).put(after)
        self._note(owner, after.column(KEY).to_pylist(), [assign.property for assign in plan.assigns], refused)
        updated = int(changed_rows(matched, after, plan.assigns).sum())
        return Affected.of(owner, after.num_rows, updated=updated, unchanged=after.num_rows - updated)

    def _changed(
        self,
        owner: NodeType | EdgeType,
        assigns: Sequence[Assign],
        before: pa.Table,
        rows: StatementRows,
        given: Mapping[str, Any],
    ) -> pa.Table:
        """Return entities with their new values; ``rows`` has one row for each of them."""
        after, schema = before, self.staging.pending(owner).schema
        names = one_array(before.column(KEY))
        for assign in assigns:
            field = schema.field(assign.property)
            if assign.property in given:
                column = repeated(given[assign.property], assign.type, field.type, before.num_rows)
            else:
                column = assigned_column(owner, assign, rows, names, field)
            after = after.set_column(after.schema.get_field_index(assign.property), field, column)
        return after

    def _delete(self, plan: DeletePlan) -> Affected:
        owner = self._owner(plan.entity, plan.type_name)
        found = self.staging.find(owner, self._test(owner, plan.where), [KEY])
        return self._remove(owner, found.column(KEY).to_pylist(), plan.cascades)

    def _remove(self, owner: NodeType | EdgeType, ids: Collection[str], cascades: Sequence[str]) -> Affected:
        """Remove entities, nodes with their edges of the listed types."""
        self.staging.pending(owner).remove(ids)
        self.staging.refused.forget(owner.table_key, set(ids))
        affected = Affected.of(owner, len(ids), deleted=len(ids))
        if not ids or not isinstance(owner, NodeType):
            return affected
        for name in cascades:
            edge = self.catalog.edges[name]
            touching = self.staging.find_edges(edge, owner, pa.array(sorted(ids), pa.string()))
            affected += self._remove(edge, touching, ())
        return affected

    def _assigned(self, owner: NodeType | EdgeType, assigns: Sequence[Assign]) -> tuple[_Values, _Refused]:
        """Return what properties store that are given a value, and for Blobs that cannot be stored the error.

        No statement can ask for the content of a Blob, so that the mutation may go on without it, in case another
        statement replaces it. What is computed of rows is left out.
        """
        values: _Values = {}
        refused: dict[str, OmnigraphError] = {}
        for assign in assigns:
            if not isinstance(assign.value, Constant | ParameterRef):
                continue
            value = self.given.value(assign.value)
            try:
                values[assign.property] = fit_stored(value, assign.type, owner, assign.property)
            except (ExternalBlobError, QueryMeaningError) as problem:
                if assign.type.scalar is not Scalar.BLOB or value is None:
                    raise
                values[assign.property] = b""
                refused[assign.property] = problem
        return values, refused

    def _note(self, owner: NodeType | EdgeType, ids: Sequence[str], names: Iterable[str], refused: _Refused) -> None:
        """Take down which properties rows got, and which of the values cannot be stored."""
        if self.row is not None:
            refused = {name: _in_row(problem, self.row) for name, problem in refused.items()}
        self.staging.refused.assign(owner.table_key, ids, names, refused)

    def _owner(self, entity: EntityKind, name: str) -> NodeType | EdgeType:
        return self.catalog.nodes[name] if entity == "node" else self.catalog.edges[name]

    def _test(self, owner: NodeType | EdgeType, where: Compare | Condition) -> Comparison | ConditionTest:
        if isinstance(where, Condition):
            return ConditionTest(condition=where, given=self.given)
        left, right = where.left, where.right
        if not isinstance(left, TargetColumn) or not isinstance(right, Constant | ParameterRef):
            raise InternalError(f"a statement compares something else than a property with a value: {where}")
        column = replace(left, property=column_of(owner, left.property))
        return compare(column, where.op, self.given.value(right), right.type)


def _in_row(problem: OmnigraphError, row: int) -> OmnigraphError:
    """Return the error of one of several calls."""
    return type(problem)(f"row {row}: {problem.message}", details=problem.details, hint=problem.hint)


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
            except (QueryMeaningError, QueryRuntimeError, ExternalBlobError) as problem:
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
            affected += Affected.of(owner, rows.num_rows, inserted=rows.num_rows)
        return affected
