"""Matches of a mutation: run by the read engine on the snapshot with the earlier statements on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.engine.comparison import one_array
from omnigraph.engine.mutate.overlay import OverlaidState, PendingCopies, types_of, types_read
from omnigraph.engine.mutate.rows import StatementRows, columns_of
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.values import RequestValues
from omnigraph.engine.query.context import QueryContext, ReadMemory, SupportsVersions
from omnigraph.engine.query.explain import start_trace
from omnigraph.engine.query.frame import MISSING, Frame, Positions, RowIds, concatenate, tagged
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.operators.pipeline import run_steps
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import Facts, plan_read
from omnigraph.engine.query.run import result_schema, run_plan
from omnigraph.engine.query.steps import QueryPlan
from omnigraph.errors import InternalError
from omnigraph.ir.model import (
    NOW_PARAMETER,
    TABLE_MARK,
    BlockValue,
    BoundEntity,
    MatchPlan,
    Operator,
    OutputPlan,
    ReadPlan,
    Scalarlike,
    StagePlan,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime, current_counters
from omnigraph.store.tables.pinned import KEY, ROW_ID


@record
class Matched:
    """The rows of a match: the id of each variable's entity, and the values that travel with them.

    ``kinds`` has the types of entities that may be of several.

    A variable names an entity, not what it was like when it was matched: a statement that looks at a property sees
    what earlier statements made of it. An entity that was removed is missing.
    """

    entities: Mapping[str, BoundEntity]
    ids: Mapping[str, pa.Array]
    values: Mapping[str, pa.Array]
    length: int
    kinds: Mapping[str, pa.Array] = field(default_factory=dict)

    def take(self, positions: Positions) -> Matched:
        """Return some of the rows."""
        at = pa.array(positions, pa.int64())
        return Matched(
            entities=self.entities,
            ids={name: ids.take(at) for name, ids in self.ids.items()},
            values={name: values.take(at) for name, values in self.values.items()},
            length=len(positions),
            kinds={name: kinds.take(at) for name, kinds in self.kinds.items()},
        )

    def distinct(self, variables: Sequence[str]) -> Matched:
        """Return the first of all rows that agree in these variables."""
        columns = [self.ids[name] if name in self.ids else self.values[f"${name}"] for name in variables]
        columns += [self.kinds[name] for name in variables if name in self.kinds]
        seen: dict[tuple[object, ...], int] = {}
        for at, key in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
            seen.setdefault(key, at)
        return self.take(np.fromiter(seen.values(), np.int64, len(seen)))

    def of_type(self, bound: BoundEntity) -> Matched:
        """Return the rows in which a variable is of one of its types."""
        kinds = self.kinds.get(bound.variable)
        return self if kinds is None else self.take(_positions(kinds, bound))

    def rows(
        self,
        staging: MutationStaging,
        given: RequestValues,
        values: Iterable[Scalarlike],
        answers: Mapping[str, pa.Array] = MappingProxyType({}),
    ) -> StatementRows:
        """Return the rows with everything that expressions look at, as it is at this point of the mutation.

        ``answers`` are those of the blocks that expressions ask.
        """
        asked = columns_of(values)
        entities = {name: self._aligned(staging, name, list(columns)) for name, columns in asked.items()}
        types = {name: self.kinds.get(name, bound.type_name) for name, bound in self.entities.items()}
        return StatementRows(given, self.length, entities, types, {**self.values, **answers})

    def _aligned(self, staging: MutationStaging, name: str, columns: list[str]) -> pa.Table:
        """Return columns of a variable's entities, one row each."""
        bound, ids = self.entities[name], self.ids[name]
        if not bound.parts:
            return staging.aligned(staging.owner(bound), ids, columns)
        found, places = list[pa.Table](), list[Positions]()
        for part in bound.parts:
            at = _positions(self.kinds[name], part)
            table = staging.aligned(staging.owner(part), ids.take(pa.array(at, pa.int64())), columns)
            plain = pa.schema([pa.field(column.name, column.type) for column in table.schema])
            found.append(table.cast(plain))
            places.append(at)
        order = np.concatenate(places)
        where = np.full(self.length, -1, dtype=np.int64)
        where[order] = np.arange(len(order))
        # A row whose entity is missing is of none of the types.
        return pa.concat_tables(found).take(pa.array(where, pa.int64(), mask=where < 0))


@record
class Matcher:
    """Runs matches. ``memory`` is what the reads of the graph share."""

    catalog: Catalog
    staging: MutationStaging
    copies: PendingCopies
    runtime: Runtime
    versions: SupportsVersions
    memory: ReadMemory | None = None

    def run(self, plan: MatchPlan, given: RequestValues) -> Matched:
        """Return the rows of a match at this point of the mutation, ordered by the ids of their entities.

        The write depends on every row of every table that was looked at.
        """
        read = plan.read
        state = self.copies.overlay(self.staging, types_read(read, self.catalog))
        facts = Facts(catalog=self.catalog, row_counts=state.row_counts)
        steps = plan_read(read, facts)
        context = self._context(state, steps, facts, given)
        schema = result_schema(read)
        found = pa.Table.from_batches(run_plan(context, steps, schema), schema)
        names = [f"#{at}" for at in range(found.num_columns)]
        found = found.rename_columns(names)
        by_id = [(name, "ascending") for name, _ in zip(names, plan.entities, strict=False)]
        columns = [one_array(column) for column in (found.sort_by(by_id) if by_id else found).columns]
        mixed = [bound.variable for bound in plan.entities if bound.parts]
        rest = columns[len(plan.entities) :]
        return Matched(
            entities={bound.variable: bound for bound in plan.entities},
            ids={bound.variable: ids for bound, ids in zip(plan.entities, columns, strict=False)},
            values=dict(zip(plan.values, rest[len(mixed) :], strict=True)),
            length=found.num_rows,
            kinds=dict(zip(mixed, rest, strict=False)),
        )

    def answers(self, blocks: Sequence[Operator], matched: Matched, given: RequestValues) -> dict[str, pa.Array]:
        """Return what blocks find for each row, by their names, at this point of the mutation.

        The write depends on every row of every table that was looked at.
        """
        if not blocks:
            return {}
        owners = list(types_of(blocks, self.catalog))
        for bound in matched.entities.values():
            owners += map(self.staging.owner, bound.of_one_type)
        outer = {
            name: TABLE_MARK.join(self.staging.owner(part).table_key for part in bound.of_one_type)
            for name, bound in matched.entities.items()
        }
        nullable = frozenset(outer)
        stage = StagePlan(operators=tuple(blocks), output=OutputPlan(shown=()), outer=tuple(outer), nullable=nullable)
        read = ReadPlan(name="blocks", parameters=(), operators=(), outputs=(), stages=(stage,))
        state = self.copies.overlay(self.staging, owners)
        facts = Facts(catalog=self.catalog, row_counts=state.row_counts)
        steps = plan_read(read, facts, outer=outer)
        (planned,) = steps.stages[0]
        context = self._context(state, steps, facts, given).within(planned.variables, nullable)
        with state.reading():
            ids = {name: _row_ids(context, matched, name) for name in outer}
            frame = Frame(length=matched.length, ids=ids, values=matched.values)
            found = concatenate(list(run_steps(context, planned.steps, iter([frame]))))
        names = [block.name for block in blocks if isinstance(block, BlockValue)]
        return {name: found.values[name] for name in names}

    def _context(self, state: OverlaidState, steps: QueryPlan, facts: Facts, given: RequestValues) -> QueryContext:
        options, counters = QueryOptions(), current_counters()
        return QueryContext(
            snapshot=state,
            catalog=self.catalog,
            parameters={**given.parameters, NOW_PARAMETER: given.now_ms},
            options=options,
            limits=Limits(options, self.runtime.clock),
            counters=counters,
            memory=state.memory(self.memory),
            plan=steps,
            trace=start_trace(steps, facts, counters),
            embed=_embed_nothing,
            versions=self.versions,
        )


def _positions(kinds: pa.Array, bound: BoundEntity) -> Positions:
    """Return the rows whose entity is of a type."""
    return np.flatnonzero(np.asarray(pc.fill_null(pc.equal(kinds, bound.type_name), fill_value=False)))


def _row_ids(context: QueryContext, matched: Matched, name: str) -> RowIds:
    """Return the row id of each entity of a variable in the state that is read."""
    bound, ids = matched.entities[name], matched.ids[name]
    found: RowIds = np.full(matched.length, MISSING, dtype=np.int64)
    for number, part in enumerate(bound.of_one_type):
        at = np.arange(matched.length) if not bound.parts else _positions(matched.kinds[name], part)
        asked = ids.take(pa.array(at, pa.int64()))
        table = context.entities(f"{part.entity}:{part.type_name}").table
        there = table.lookup(pc.unique(asked).drop_null(), [KEY])
        places = pc.index_in(asked, value_set=one_array(there.column(KEY)))
        known = np.asarray(places.is_valid())
        rows = one_array(there.column(ROW_ID)).to_numpy().astype(np.int64)
        found[at[known]] = tagged(rows[places.drop_null().to_numpy()], number)
    return found


def _embed_nothing(*asked: object) -> Sequence[float]:
    raise InternalError(f"a match of a mutation ranks nothing: {asked}")


def first_positions(ids: pa.Array) -> tuple[Positions, Positions]:
    """Return where each id stands first, and for each row the number of its id among those.

    >>> first_positions(pa.array(["b", "a", "b"]))
    (array([0, 1]), array([0, 1, 0]))
    """
    encoded = ids.dictionary_encode()
    groups = np.asarray(encoded.indices, dtype=np.int64)
    firsts = np.full(len(encoded.dictionary), len(ids), dtype=np.int64)
    np.minimum.at(firsts, groups, np.arange(len(ids)))
    return firsts, groups


def present(ids: pa.Array) -> Positions:
    """Return the rows whose entity is there."""
    return np.flatnonzero(np.asarray(pc.is_valid(ids)))
