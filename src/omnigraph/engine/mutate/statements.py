"""The statements of a mutation, each run on what the ones before it left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import EdgeType, NodeType, Scalar
from omnigraph.engine.comparison import Comparison, column_of, compare, one_array
from omnigraph.engine.mutate.assigning import assigned_column, changed_rows, computed_column
from omnigraph.engine.mutate.matching import Matched, Matcher, first_positions, present
from omnigraph.engine.mutate.rows import ConditionTest, StatementRows, columns_of, decoded_values
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.values import RequestValues, fit_end, fit_stored, repeated, stored_array, whole_row
from omnigraph.engine.query.functions.kernels import cast_to
from omnigraph.engine.query.output.ordering import output_type
from omnigraph.engine.query.values import compute, passing
from omnigraph.errors import (
    BadValue,
    EntityChangedError,
    EntityMismatch,
    ExistingKeys,
    ExternalBlobError,
    ExternalBlobSourceError,
    InternalError,
    KeyExistsError,
    OmnigraphError,
    QueryMeaningError,
    QueryRuntimeError,
)
from omnigraph.ir.check.mutations import stored_name, target_columns
from omnigraph.ir.model import (
    TARGET,
    AggregateCall,
    Assign,
    BoundEntity,
    Compare,
    Condition,
    Constant,
    DeleteMatchedPlan,
    DeletePlan,
    EntityKind,
    Guard,
    InsertMode,
    InsertPlan,
    MatchPlan,
    Operator,
    Output,
    ParameterRef,
    RankingValue,
    Scalarlike,
    StatementPlan,
    TargetColumn,
    UpdateMatchedPlan,
    UpdatePlan,
)
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


_NO_SCALAR = AggregateCall | RankingValue
_Refused: TypeAlias = Mapping[str, OmnigraphError]
_Values: TypeAlias = dict[str, Any]


@record(frozen=False, slots=False)
class Statements:
    """Runs statements: they read and change ``staging`` and nothing else.

    ``matched`` are the rows of the last match, ``written`` is what the last statement wrote.
    """

    catalog: Catalog
    staging: MutationStaging
    given: RequestValues
    ids: IdSource
    matcher: Matcher
    # Which of several calls it is, counted from 1.
    row: int | None = None
    matched: Matched | None = None
    written: tuple[NodeType | EdgeType, Sequence[str]] | None = None

    def run(self, statement: StatementPlan) -> Affected:
        """Run one statement.

        Raises:
            QueryMeaningError, QueryRuntimeError: a value does not fit the property it is assigned to, or an entity
                gets several.
            ExternalBlobError: a Blob is given as an address outside the graph.
            KeyExistsError: a strict insert meets its key.
            EntityChangedError: an entity is not at the version that the statement insists on.
        """
        match statement:
            case MatchPlan():
                self.matched = self.matcher.run(statement, self.given)
                return Affected()
            case InsertPlan():
                return self._insert(statement)
            case UpdateMatchedPlan():
                return self._update_matched(statement)
            case DeleteMatchedPlan():
                return self._delete_matched(statement)
            case UpdatePlan():
                return self._update(statement)
            case DeletePlan():
                return self._delete(statement)
            case _:
                assert_never(statement)

    def returned(self, outputs: Sequence[Output], blocks: Sequence[Operator] = ()) -> pa.Table:
        """Return what is asked of the rows of the last match, or of what the last statement wrote, as it is now."""
        values = [output.expression for output in outputs if not isinstance(output.expression, _NO_SCALAR)]
        if self.matched is not None:
            answers = self.matcher.answers(blocks, self.matched, self.given)
            rows = self.matched.rows(self.staging, self.given, values, answers)
        else:
            owner, ids = self.written or (None, ())
            rows = StatementRows(self.given, len(ids))
            if owner is not None:
                named = pa.array(ids, pa.string())
                wanted = _readable(owner) if blocks else list(columns_of(values).get(TARGET, ()))
                found = self.staging.aligned(owner, named, wanted)
                rows = StatementRows(self.given, len(ids), {TARGET: found}, values=self._answers(owner, blocks, found))
        schema = returned_schema(outputs)
        columns = [cast_to(compute(value, rows), column.type) for value, column in zip(values, schema, strict=True)]
        return pa.Table.from_arrays(columns, schema=schema)

    def _insert(self, plan: InsertPlan) -> Affected:
        """Insert one entity, or one for each distinct row of the match."""
        owner = self._owner(plan.entity, plan.type_name)
        rows = StatementRows(self.given, 1)
        if plan.for_each is not None:
            values = [item for item in (*(assign.value for assign in plan.assigns), plan.from_id, plan.to_id) if item]
            each = self._match().distinct(plan.for_each)
            rows = each.rows(self.staging, self.given, values, self.matcher.answers(plan.blocks, each, self.given))
        given, refused = self._assigned(owner, plan.assigns)
        columns = {
            assign.property: self._computed(owner, assign, rows)
            for assign in plan.assigns
            if assign.property not in given
        }
        if isinstance(owner, EdgeType):
            columns |= self._ends(owner, plan, rows)
        found = [given | {name: column[at] for name, column in columns.items()} for at in range(rows.length)]
        if plan.mode is not None:
            return self._insert_by_key(owner, plan.mode, self._keyed(owner, found), refused)
        whole = [{**values, **whole_row(owner, values)} for values in found]
        if owner.key is not None and plan.for_each is not None:
            whole = list(self._keyed(owner, whole).values())
        self.written = owner, [self._put(owner, values, refused) for values in whole]
        return Affected.of(owner, len(whole), inserted=len(whole))

    def _put(self, owner: NodeType | EdgeType, values: _Values, refused: _Refused) -> str:
        is_made = owner.key is None
        chosen = str(self.ids.ulid()) if is_made else entity_id(owner, values)
        self.staging.pending(owner).insert(chosen, values, is_made=is_made)
        self._note(owner, [chosen], values, refused)
        return chosen

    def _keyed(self, owner: NodeType | EdgeType, found: Sequence[_Values]) -> dict[str, _Values]:
        """Return the values of each entity by its id."""
        keyed: dict[str, _Values] = {}
        for values in found:
            name = str(entity_id(owner, values))
            if keyed.setdefault(name, values) != values:
                raise different_values(owner, name)
        return keyed

    def _insert_by_key(
        self, owner: NodeType | EdgeType, mode: InsertMode, wanted: Mapping[str, _Values], refused: _Refused
    ) -> Affected:
        """Insert those of the entities that are not there; what becomes of the others is up to the mode."""
        schema = self.staging.pending(owner).schema
        columns = schema.names if mode == "merge" else []
        there = self.staging.rows_with_ids(owner, pa.array(list(wanted), pa.string()), columns).combine_chunks()
        known = set(there.column(KEY).to_pylist())
        if known and mode == "refuse":
            names = sorted(known)
            details = ExistingKeys(location=owner.table_key, ids=tuple(names[:20]), count=len(names))
            raise KeyExistsError(f"{owner.name} '{names[0]}' exists already", details=details)
        fresh = {name: values for name, values in wanted.items() if name not in known}
        for name, values in fresh.items():
            if isinstance(owner, EdgeType):
                for column, end in (("src", "from"), ("dst", "to")):
                    fit_end(values.get(column), owner, end)
            try:
                row = {**values, **whole_row(owner, values)}
            except QueryMeaningError as problem:
                raise type(problem)(f"{owner.name} '{name}': {problem.message}", details=problem.details) from problem
            self._put(owner, row, refused)
        done = Affected.of(owner, len(fresh), inserted=len(fresh))
        self.written = owner, list(wanted)
        if mode == "merge" and known:
            return done + self._merge(owner, there, wanted, refused)
        return done + Affected(unchanged=len(known))

    def _merge(
        self, owner: NodeType | EdgeType, before: pa.Table, wanted: Mapping[str, _Values], refused: _Refused
    ) -> Affected:
        """Give entities that are there the values that an upsert has for them."""
        ids: list[str] = before.column(KEY).to_pylist()
        given = [wanted[name] for name in ids]
        for column in ("src", "dst") if isinstance(owner, EdgeType) else ():
            for name, values, stored in zip(ids, given, before.column(column).to_pylist(), strict=True):
                if values.get(column, stored) != stored:
                    details = BadValue(what="end", value=str(values[column]), expected=str(stored))
                    message = f"{owner.name} '{name}': the ends of an edge cannot be changed"
                    raise QueryRuntimeError(message, details=details)
        after, assigns = before, []
        for prop in owner.properties:
            if prop.name not in given[0] or prop.name in (owner.key or ()):
                continue
            field = self.staging.pending(owner).schema.field(prop.name)
            column = stored_array([values[prop.name] for values in given], field.type)
            after = after.set_column(after.schema.get_field_index(prop.name), field, column)
            assigns.append(Assign(property=prop.name, value=Constant(value=None, type=prop.type), type=prop.type))
        mask = changed_rows(before, after, assigns)
        updated = int(mask.sum())
        if updated:
            changed = after.filter(pa.array(mask))
            self.staging.pending(owner).put(changed)
            self._note(owner, changed.column(KEY).to_pylist(), [item.property for item in assigns], refused)
        return Affected.of(owner, updated, updated=updated, unchanged=len(ids) - updated)

    def _computed(self, owner: NodeType | EdgeType, assign: Assign, rows: StatementRows) -> list[Any]:
        """Return what a property stores for each row."""
        found = decoded_values(computed_column(assign.value, rows, owner))
        return [fit_stored(value, assign.type, owner, assign.property) for value in found]

    def _ends(self, owner: EdgeType, plan: InsertPlan, rows: StatementRows) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for column, name, end in (("src", "from", plan.from_id), ("dst", "to", plan.to_id)):
            if end is not None or plan.mode != "merge":
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
        matched = self._found(owner, plan, schema.names)
        self._insist(owner, one_array(matched.column(KEY)), plan.version)
        if not matched.num_rows and refused:
            # Whether it is an error must not depend on whether a row matches.
            raise next(iter(refused.values()))
        answers = self._answers(owner, plan.blocks, matched)
        rows = StatementRows(self.given, matched.num_rows, {TARGET: matched}, values=answers)
        after = self._changed(owner, plan.assigns, matched, rows, given)
        return self._replace(owner, plan.assigns, matched, after, refused)

    def _found(self, owner: NodeType | EdgeType, plan: UpdatePlan | DeletePlan, columns: list[str]) -> pa.Table:
        """Return columns of the entities that a statement is about."""
        if not plan.blocks or not isinstance(plan.where, Condition):
            return self.staging.find(owner, self._test(owner, plan.where), columns)
        self.staging.depend_on(owner.table_key)
        every = self.staging.readable_rows(owner)
        answers = self._answers(owner, plan.blocks, every)
        rows = StatementRows(self.given, every.num_rows, {TARGET: every}, values=answers)
        chosen = one_array(every.column(KEY)).take(pa.array(np.flatnonzero(passing(plan.where, rows))))
        return self.staging.rows_with_ids(owner, chosen, columns).select(columns)

    def _answers(
        self, owner: NodeType | EdgeType, blocks: Sequence[Operator], rows: pa.Table
    ) -> Mapping[str, pa.Array]:
        """Return what blocks find for entities of a type, whose properties are values to them."""
        if not blocks:
            return {}
        columns = {prop.name: stored_name(owner, prop.name) for prop in target_columns(owner)}
        values = {
            name: one_array(rows.column(stored))
            for name, stored in columns.items()
            if stored in rows.column_names and not _is_blob(owner, stored)
        }
        return self.matcher.answers(
            blocks, Matched(entities={}, ids={}, values=values, length=rows.num_rows), self.given
        )

    def _update_matched(self, plan: UpdateMatchedPlan) -> Affected:
        """Change the entities of a variable, those of each type by themselves."""
        match = self._match()
        answers = self.matcher.answers(plan.blocks, match, self.given)
        matched = replace(match, values={**match.values, **answers})
        owners = [self.staging.owner(target) for target in plan.target.of_one_type]
        assigns = [tuple(_typed(owner, assign) for assign in plan.assigns) for owner in owners]
        given = [self._assigned(owner, some) for owner, some in zip(owners, assigns, strict=True)]
        for _, refused in given:
            if not matched.length and refused:
                raise next(iter(refused.values()))
        found = [self._of_type(target, matched) for target in plan.target.of_one_type]
        ids = [(owner, one_array(before.column(KEY))) for owner, (before, _) in zip(owners, found, strict=True)]
        self._insist_all(ids, plan.version)
        # Every value is computed of the entities as they are before the statement.
        changes = [
            self._once(owner, some, before, rows, values)
            for owner, some, (before, rows), (values, _) in zip(owners, assigns, found, given, strict=True)
        ]
        affected = Affected()
        for owner, some, (before, after), (_, refused) in zip(owners, assigns, changes, given, strict=True):
            affected += self._replace(owner, some, before, after, refused)
        return affected

    def _of_type(self, target: BoundEntity, matched: Matched) -> tuple[pa.Table, Matched]:
        """Return the entities of a variable that are of one type and there, and their rows."""
        owner, rows = self.staging.owner(target), matched.of_type(target)
        # An entity of an optional block, or one that was removed, may be missing.
        whole = self.staging.aligned(owner, rows.ids[target.variable], self.staging.pending(owner).schema.names)
        there = present(one_array(whole.column(KEY)))
        return whole.take(pa.array(there)), rows.take(there)

    def _once(
        self,
        owner: NodeType | EdgeType,
        assigns: tuple[Assign, ...],
        before: pa.Table,
        matched: Matched,
        given: Mapping[str, Any],
    ) -> tuple[pa.Table, pa.Table]:
        """Return each entity once, before and after; all of its rows must give it the same values."""
        rows = matched.rows(self.staging, self.given, [assign.value for assign in assigns])
        after = self._changed(owner, assigns, before, rows, given)
        ids = one_array(before.column(KEY))
        firsts, groups = first_positions(ids)
        if len(firsts) == len(ids):
            return before, after
        once = after.take(pa.array(firsts[groups]))
        computed = [assign for assign in assigns if assign.property not in given]
        differing = np.flatnonzero(changed_rows(once, after, computed))
        if len(differing):
            raise different_values(owner, ids[int(differing[0])].as_py())
        return before.take(pa.array(firsts)), after.take(pa.array(firsts))

    def _replace(
        self,
        owner: NodeType | EdgeType,
        assigns: Sequence[Assign],
        before: pa.Table,
        after: pa.Table,
        refused: _Refused,
    ) -> Affected:
        """Put entities in the place of what they were before."""
        ids: list[str] = after.column(KEY).to_pylist()
        self.written = owner, ids
        if not ids:
            return Affected()
        self.staging.pending(owner).put(after)
        self._note(owner, ids, [assign.property for assign in assigns], refused)
        updated = int(changed_rows(before, after, assigns).sum())
        return Affected.of(owner, len(ids), updated=updated, unchanged=len(ids) - updated)

    def _delete_matched(self, plan: DeleteMatchedPlan) -> Affected:
        affected = Affected()
        for variable in plan.targets:
            owners = [self.staging.owner(target) for target in variable.of_one_type]
            found = [
                one_array(self.staging.rows_with_ids(owner, rows.ids[variable.variable], []).column(KEY))
                for owner, rows in zip(owners, map(self._match().of_type, variable.of_one_type), strict=True)
            ]
            self._insist_all(list(zip(owners, found, strict=True)), plan.version)
            for owner, ids, target in zip(owners, found, variable.of_one_type, strict=True):
                affected += self._remove(owner, ids.to_pylist(), target.cascades)
        return affected

    def _insist_all(self, found: Sequence[tuple[NodeType | EdgeType, pa.Array]], guard: Guard | None) -> None:
        """Insist on a version of entities that may be of several types."""
        there = [(owner, ids) for owner, ids in found if len(ids)]
        for owner, ids in there or found[:1]:
            self._insist(owner, ids, guard)

    def _insist(self, owner: NodeType | EdgeType, ids: pa.Array, guard: Guard | None) -> None:
        """Refuse to go on when entities are not at a version in the state that the mutation runs on.

        Raises:
            EntityChangedError: there is none, or one of them is at another version.
        """
        if guard is None:
            return
        expected = str(self.given.value(guard))
        if not len(ids):
            details = EntityMismatch(table_key=owner.table_key, id=None, expected=expected, actual=None)
            raise EntityChangedError(f"no matching {owner.name} is at version '{expected}'", details=details)
        found = self.matcher.versions.find(owner.table_key, ids)
        for name, actual in zip(ids.to_pylist(), found.to_pylist(), strict=True):
            if actual != expected:
                is_at = "is not stored yet" if actual is None else f"is at version '{actual}'"
                details = EntityMismatch(table_key=owner.table_key, id=name, expected=expected, actual=actual)
                raise EntityChangedError(f"{owner.name} '{name}' {is_at}, not at '{expected}'", details=details)

    def _match(self) -> Matched:
        if self.matched is None:
            raise InternalError("a statement uses variables and no match is before it")
        return self.matched

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
        found = self._found(owner, plan, [KEY])
        self._insist(owner, one_array(found.column(KEY)), plan.version)
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
            except (ExternalBlobError, ExternalBlobSourceError, QueryMeaningError) as problem:
                if assign.type.scalar is not Scalar.BLOB or value is None:
                    raise
                values[assign.property] = b""
                refused[assign.property] = problem
        return values, refused

    def _note(self, owner: NodeType | EdgeType, ids: Sequence[str], names: Iterable[str], refused: _Refused) -> None:
        """Take down which properties rows got, and which of the values cannot be stored."""
        if self.row is not None:
            refused = {name: in_row(problem, self.row) for name, problem in refused.items()}
        self.staging.refused.assign(owner.table_key, ids, names, refused)

    def _owner(self, entity: EntityKind, name: str) -> NodeType | EdgeType:
        return self.catalog.nodes[name] if entity == "node" else self.catalog.edges[name]

    def _test(self, owner: NodeType | EdgeType, where: Compare | Condition) -> Comparison | ConditionTest:
        if isinstance(where, Condition):
            return ConditionTest(condition=where, given=self.given)
        left, right = where.left, where.right
        if not isinstance(left, TargetColumn) or not isinstance(right, Constant | ParameterRef):
            raise InternalError(f"a statement can only compare a property with a value: {where}")
        column = replace(left, property=column_of(owner, left.property))
        return compare(column, where.op, self.given.value(right), right.type)


def _typed(owner: NodeType | EdgeType, assign: Assign) -> Assign:
    """Return an assignment to a property that several types have, for one of them."""
    found = owner.get(assign.property)
    return assign if found is None else replace(assign, type=found.type)


def _readable(owner: NodeType | EdgeType) -> list[str]:
    """Return the columns of a type that can be read: no Blobs."""
    return [field.name for field in arrow_schema(owner) if not _is_blob(owner, field.name)]


def _is_blob(owner: NodeType | EdgeType, name: str) -> bool:
    found = owner.get(name)
    return found is not None and found.type.scalar is Scalar.BLOB


def different_values(owner: NodeType | EdgeType, name: str) -> QueryRuntimeError:
    """Return the error for an entity that one statement gives several values."""
    details = BadValue(what="values", value=f"{owner.name} '{name}'", expected="the same values in every row")
    return QueryRuntimeError(f"{owner.name} '{name}' gets different values by one statement", details=details)


def returned_schema(outputs: Sequence[Output]) -> pa.Schema:
    """Return the columns of what a mutation returns."""
    return pa.schema([pa.field(output.name, output_type(output.type)) for output in outputs])


def in_row(problem: OmnigraphError, row: int) -> OmnigraphError:
    """Return the error of one of several calls."""
    return type(problem)(f"row {row}: {problem.message}", details=problem.details, hint=problem.hint)
