"""Matches of a mutation: run by the read engine on the snapshot with the earlier statements on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.engine.comparison import one_array
from omnigraph.engine.mutate.overlay import PendingCopies
from omnigraph.engine.mutate.rows import StatementRows, columns_of
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.values import RequestValues
from omnigraph.engine.query.context import QueryContext, ReadMemory, SupportsVersions
from omnigraph.engine.query.explain import start_trace
from omnigraph.engine.query.frame import Positions
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import Facts, plan_read
from omnigraph.engine.query.run import result_schema, run_plan
from omnigraph.errors import InternalError
from omnigraph.ir.model import NOW_PARAMETER, BoundEntity, MatchPlan, Scalarlike
from omnigraph.records import record
from omnigraph.runtime import Runtime, current_counters


@record
class Matched:
    """The rows of a match: the id of each variable's entity, and the values that travel with them.

    A variable names an entity, not what it was like when it was matched: a statement that looks at a property sees
    what earlier statements made of it. An entity that was removed is missing.
    """

    entities: Mapping[str, BoundEntity]
    ids: Mapping[str, pa.Array]
    values: Mapping[str, pa.Array]
    length: int

    def take(self, positions: Positions) -> Matched:
        """Return some of the rows."""
        at = pa.array(positions, pa.int64())
        return Matched(
            entities=self.entities,
            ids={name: ids.take(at) for name, ids in self.ids.items()},
            values={name: values.take(at) for name, values in self.values.items()},
            length=len(positions),
        )

    def distinct(self, variables: Sequence[str]) -> Matched:
        """Return the first of all rows that agree in these variables."""
        columns = [self.ids[name] if name in self.ids else self.values[f"${name}"] for name in variables]
        seen: dict[tuple[object, ...], int] = {}
        for at, key in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
            seen.setdefault(key, at)
        return self.take(np.fromiter(seen.values(), np.int64, len(seen)))

    def rows(self, staging: MutationStaging, given: RequestValues, values: Iterable[Scalarlike]) -> StatementRows:
        """Return the rows with everything that expressions look at, as it is at this point of the mutation."""
        asked = columns_of(values)
        entities = {
            name: staging.aligned(staging.owner(self.entities[name]), self.ids[name], list(columns))
            for name, columns in asked.items()
        }
        types = {name: bound.type_name for name, bound in self.entities.items()}
        return StatementRows(given, self.length, entities, types, self.values)


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
        state = self.copies.overlay(self.staging, read, self.catalog)
        facts = Facts(catalog=self.catalog, row_counts=state.row_counts)
        steps = plan_read(read, facts)
        options, counters = QueryOptions(), current_counters()
        context = QueryContext(
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
        found = pa.Table.from_batches(run_plan(context, steps), result_schema(read))
        names = [f"#{at}" for at in range(found.num_columns)]
        found = found.rename_columns(names)
        by_id = [(name, "ascending") for name, _ in zip(names, plan.entities, strict=False)]
        columns = [one_array(column) for column in (found.sort_by(by_id) if by_id else found).columns]
        count = len(plan.entities)
        return Matched(
            entities={bound.variable: bound for bound in plan.entities},
            ids={bound.variable: ids for bound, ids in zip(plan.entities, columns, strict=False)},
            values=dict(zip(plan.values, columns[count:], strict=True)),
            length=found.num_rows,
        )


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
