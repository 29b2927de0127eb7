"""Everything one read holds while it runs: the snapshot's tables, its parameters, its limits, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.query.entities import Demand, Entities, EntityUnion, NoEntities
from omnigraph.engine.query.explain import Trace
from omnigraph.engine.query.frame import MISSING, Frame, Mask, Positions, RowIds, untagged
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.predicates import evaluate, read_variables, reads_values
from omnigraph.engine.query.steps import CountExpand, QueryPlan
from omnigraph.engine.query.topology import TopologyCache
from omnigraph.engine.query.values import passing
from omnigraph.engine.relational import EnginePool
from omnigraph.engine.versions import KnownVersions, known_versions
from omnigraph.errors import BadValue, QueryRuntimeError
from omnigraph.ir.model import (
    INTERFACE_MARK,
    PRIVATE_MARK,
    TABLE_MARK,
    Bm25Ranking,
    Column,
    Condition,
    Constant,
    ParameterRef,
    Predicate,
    Ranking,
    SameEntity,
    TextMatch,
)
from omnigraph.records import record
from omnigraph.runtime import Counters, late_property
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.table import Table

if TYPE_CHECKING:
    from omnigraph.engine.query.output.ranking import RankingInput
    from omnigraph.engine.query.search import TextIndex, TextIndexes
    from omnigraph.engine.query.search.best import ScoredTexts

# Entities that a message about a row names.
_PLACED = 5
# Text, dimension, the model that the schema names, the property, and how long it may take in ms: to a vector.
Embed = Callable[[str, int, str | None, str, int | None], Sequence[float]]


@record(slots=False)
class ReadMemory:
    """What the reads of one open graph share."""

    topology: TopologyCache
    demand: Demand
    engines: EnginePool
    versions: KnownVersions

    @classmethod
    def empty(cls, engines: EnginePool | None = None) -> ReadMemory:
        """Return what reads begin with, with engines that others use as well if there are any."""
        return cls(
            topology=TopologyCache(),
            demand=Demand(),
            engines=engines or EnginePool(),
            versions=known_versions(),
        )

    @late_property
    def texts(self) -> TextIndexes:
        """What is known of words."""
        from omnigraph.engine.query.search import TextIndexes  # noqa: PLC0415 - few reads look for words

        return TextIndexes()


@record
class LeadingRanking:
    """A ranking by words that leaves out every row that has none of them.

    Args:
        ranking: the ranking.
        limit: how many entities matter, when nothing but the ranking chooses among them.
    """

    ranking: Bm25Ranking
    limit: int | None = None


class MatchedRows(Protocol):
    """What output, order and groups ask of the rows that a match found, wherever those are."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of the rows."""

    @property
    def limits(self) -> Limits:
        """What may be held, and for how long."""

    @property
    def keeps_order(self) -> bool:
        """Whether groups must come in the order of their first row."""

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or a parameter."""

    def take(self, variable: str, row_ids: RowIds, name: str) -> pa.Array:
        """Return a property of entities of a variable."""

    def whole_table(self, variable: str, count: int) -> Entities | None:
        """Return the table of a variable, if so many of its entities are better taken from memory than fetched."""


class SupportsTables(Protocol):
    """A state of the graph, as reads ask it."""

    def table(self, table_key: str) -> Table:
        """Return a table of the state."""

    def reading(self) -> AbstractContextManager[None]:
        """Let the block read tables of the state."""


class SupportsVersions(Protocol):
    """What tells which commit last changed an entity."""

    def find(self, table_key: str, ids: pa.Array) -> pa.Array:
        """Return the commit that last changed each entity, by its id; NULL for one that is not stored."""


class QueryContext:
    """One run of one read."""

    def __init__(  # noqa: PLR0913 - one parameter per part of a run
        self,
        *,
        snapshot: SupportsTables,
        catalog: Catalog,
        parameters: Mapping[str, Any],
        options: QueryOptions,
        limits: Limits,
        counters: Counters,
        memory: ReadMemory,
        plan: QueryPlan,
        trace: Trace,
        embed: Embed,
        versions: SupportsVersions,
    ) -> None:
        self.snapshot = snapshot
        self.catalog = catalog
        self.parameters = parameters
        self.options = options
        self.limits = limits
        self.counters = counters
        self.memory = memory
        self.variables = plan.variables
        self.fits_literals = plan.fits_literals
        self.is_late = plan.is_late
        # Groups must come in the order of their first row when rows come in the order of their rank.
        self.keeps_order = plan.read.ranking is not None
        self.trace = trace
        self.embed = embed
        self.versions = versions
        # Entities that an optional block may leave missing.
        self.nullable: frozenset[str] = frozenset()
        # The ranking by words that decides which rows there are, as long as no block or stage is between.
        self.leading: LeadingRanking | None = None
        # What the rankings of stages compare with.
        self.rankings: Mapping[Ranking, RankingInput] = {}
        self._columns = plan.columns
        self._entities: dict[str, Entities] = {}
        self._whole_masks: dict[tuple[str, Predicate], Mask] = {}
        self._text_scores: dict[tuple[TablePin, str, str], ScoredTexts] = {}
        # What counting found for every node at once, by the step that asked.
        self.whole_weights: dict[CountExpand, npt.NDArray[np.int64]] = {}

    def within(self, variables: Mapping[str, str], nullable: frozenset[str] | None = None) -> QueryContext:
        """Return the same run seen from inside a block or a stage, where variables may have other types."""
        inner = QueryContext.__new__(QueryContext)
        # What the library's copy does, without the questions that it asks first.
        inner.__dict__.update(self.__dict__)
        inner.variables = variables
        inner.leading = None
        if nullable is not None:
            inner.nullable = nullable
        return inner

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or a parameter."""
        return value.value if isinstance(value, Constant) else self.parameters[value.name]

    def entities(self, table_key: str) -> Entities:
        """Return the entities of a type."""
        found = self._entities.get(table_key)
        if found is None:
            table = self.snapshot.table(table_key)
            found = Entities(
                self._owner(table_key),
                table,
                self._columns.get(table_key, ()),
                self.memory.topology,
                self.memory.demand,
                self.options.mode,
                self.limits,
            )
            self._entities[table_key] = found
        return found

    def entities_of(self, variable: str) -> Entities:
        """Return the entities that a variable of one type ranges over."""
        return self.entities(self.variables[variable])

    def tables_of(self, variable: str) -> tuple[str, ...]:
        """Return the tables that a variable ranges over, by their numbers in its row ids."""
        tables = self.variables[variable]
        return () if tables.startswith(INTERFACE_MARK) else tuple(tables.split(TABLE_MARK))

    def source_of(self, variable: str) -> Entities | EntityUnion | NoEntities:
        """Return where the properties of a variable's entities are found."""
        tables = self.tables_of(variable)
        if not tables:
            return NoEntities(self.catalog.interfaces[self.variables[variable].removeprefix(INTERFACE_MARK)])
        return self.entities(tables[0]) if len(tables) == 1 else EntityUnion([self.entities(key) for key in tables])

    def take(self, variable: str, row_ids: RowIds, name: str) -> pa.Array:
        """Return a property of entities of a variable; NULL where one is missing."""
        if variable not in self.nullable or not (missing := row_ids == MISSING).any():
            # What a variable of one type ranges over is called as its table.
            known = self._entities.get(self.variables[variable])
            return (known or self.source_of(variable)).values(row_ids, name)
        found = self.source_of(variable).values(row_ids[~missing], name)
        places = np.cumsum(~missing) - 1
        return found.take(pa.array(places, pa.int64(), mask=missing))

    def whole_table(self, variable: str, count: int) -> Entities | None:
        """Return the table of a variable, if so many of its entities are better taken from memory than fetched."""
        if len(self.tables_of(variable)) != 1:
            return None
        entities = self.entities_of(variable)
        return entities if entities.prefers_memory(count) else None

    def mask(self, frame: Frame, predicate: Predicate) -> Mask:
        """Return which rows pass a predicate."""
        variables = read_variables(predicate)
        is_about_one = len(variables) == 1 and not (variables & self.nullable) and not reads_values(predicate)
        if is_about_one and not isinstance(predicate, SameEntity) and len(self.tables_of(min(variables))) == 1:
            variable = next(iter(variables))
            entities = self.entities_of(variable)
            # Asking every entity once beats asking each row when rows repeat them.
            if isinstance(predicate, TextMatch) or (
                frame.length > entities.table.row_count and entities.prefers_memory(frame.length)
            ):
                return self.whole_mask(variable, predicate)[entities.codes(frame.ids[variable])]
        return evaluate(predicate, FrameRows(self, frame))

    def whole_mask(self, variable: str, predicate: Predicate) -> Mask:
        """Return which entities of a variable's type pass a predicate on it, in the order of the image."""
        key = (self.variables[variable], predicate)
        found = self._whole_masks.get(key)
        if found is None:
            found = evaluate(predicate, _WholeTable(self, self.entities_of(variable)))
            self.limits.hold(found.nbytes)
            self._whole_masks[key] = found
        return found

    def text_matches(self, entities: Entities, predicate: TextMatch) -> Mask:
        """Return which entities a text search finds, in the order of the image."""
        found = np.zeros(entities.image.row_count, dtype=np.bool_)
        query = self.given(predicate.query)
        if query is None:
            return found
        index = self.text_index(entities, predicate.field.property)
        if predicate.function == "fuzzy":
            found[index.fuzzy(query, self._max_edits(predicate))] = True
        else:
            found[index.matches(query)] = True
        return found

    def text_index(self, entities: Entities, name: str) -> TextIndex:
        """Return the words of a property of all entities."""
        return self.memory.texts.get(entities.image, name, self.limits.check)

    def text_scores(
        self,
        entities: Entities,
        name: str,
        query: str,
        *,
        limit: int | None = None,
        among: Positions | None = None,
    ) -> tuple[Positions, npt.NDArray[np.float64]]:
        """Return the entities that have any of the words, by ascending codes, and the score of each; worked out once.

        Args:
            entities: the table.
            name: the property.
            query: the words.
            limit: how many of the best matter; others may be left out.
            among: the codes that matter; others may be left out.
        """
        key = (entities.table.pin, name, query)
        found = self._text_scores.get(key)
        if found is None or not found.serves(limit, among):
            index = self.text_index(entities, name)
            codes, scores = index.scores(query) if limit is None else index.best(query, limit)
            self.limits.hold(codes.nbytes + scores.nbytes)
            from omnigraph.engine.query.search.best import ScoredTexts  # noqa: PLC0415 - few reads look for words

            found = ScoredTexts(codes=codes, scores=scores, limit=limit)
            self._text_scores[key] = found
        return found.codes, found.scores

    def _max_edits(self, predicate: TextMatch) -> int:
        given = 2 if predicate.max_edits is None else self.given(predicate.max_edits)
        edits = 2 if given is None else given
        if edits < 0:
            details = BadValue(what="max_edits", value=str(edits), expected="a non-negative integer")
            raise QueryRuntimeError(f"fuzzy does not take a negative number of edits: {edits}", details=details)
        return int(edits)

    def _owner(self, table_key: str) -> NodeType | EdgeType:
        kind, _, name = table_key.partition(":")
        return self.catalog.nodes[name] if kind == "node" else self.catalog.edges[name]


class FrameRows:
    """The rows of a frame, as predicates ask them."""

    def __init__(self, context: QueryContext, frame: Frame) -> None:
        self._context = context
        self._frame = frame
        self.length = frame.length
        self.fits_literals = context.fits_literals
        # A condition may ask for one property thousands of times.
        self._taken: dict[tuple[str, str], pa.Array] = {}

    def column(self, column: Column) -> pa.Array:
        """Return a property, one value per row."""
        key = (column.variable, column.property)
        found = self._taken.get(key)
        if found is None:
            found = self._context.take(column.variable, self._frame.ids[column.variable], column.property)
            self._taken[key] = found
        return found

    def given(self, value: Constant | ParameterRef) -> Any:
        """Return the value of a literal or parameter."""
        return self._context.given(value)

    def matches_text(self, predicate: TextMatch) -> Mask:
        """Return which rows a text search finds."""
        variable = predicate.field.variable
        ids = self._frame.ids[variable]
        numbers, plain = untagged(ids)
        found: Mask = np.zeros(self.length, dtype=np.bool_)
        for number, table_key in enumerate(self._context.tables_of(variable)):
            inner = self._context.within({**self._context.variables, variable: table_key})
            there = (ids != MISSING) & (numbers == number)
            found[there] = inner.whole_mask(variable, predicate)[inner.entities(table_key).codes(plain[there])]
        return found

    def same_entity(self, predicate: SameEntity) -> Mask:
        """Return in which rows two variables hold the same entity."""
        left = self._frame.ids[predicate.left]
        same: Mask = (left == self._frame.ids[predicate.right]) & (left != MISSING)
        return same

    def passes(self, condition: Condition) -> Mask:
        """Return in which rows a condition is true."""
        return passing(condition, self)

    def value(self, name: str) -> pa.Array:
        """Return a value that travels with the rows."""
        return self._frame.values[name]

    def entity_ids(self, variable: str) -> pa.Array:
        """Return the ids of a variable's entities; NULL where one is missing."""
        return self._context.take(variable, self._frame.ids[variable], KEY)

    def entity_rows(self, variable: str) -> pa.Array:
        """Return the row numbers of a variable's entities."""
        return pa.array(self._frame.ids[variable], pa.int64())

    def entity_types(self, variable: str) -> pa.Array:
        """Return the types of a variable's entities."""
        names = [key.partition(":")[2] for key in self._context.tables_of(variable)]
        ids = self._frame.ids[variable]
        missing = ids == MISSING
        numbers, _ = untagged(ids)
        return pa.array(names, pa.string()).take(pa.array(numbers, pa.int64(), mask=missing))

    def entity_versions(self, variable: str) -> pa.Array:
        """Return the commits that last changed a variable's entities; NULL where one is missing."""
        row_ids = self._frame.ids[variable]
        names = self.entity_ids(variable)
        numbers, _ = untagged(row_ids)
        found = np.full(self.length, None, dtype=object)
        for number, table_key in enumerate(self._context.tables_of(variable)):
            there = np.flatnonzero((row_ids != MISSING) & (numbers == number))
            if len(there):
                versions = self._context.versions.find(table_key, names.take(pa.array(there)))
                found[there] = versions.to_numpy(zero_copy_only=False)
        return pa.array(found, pa.string())

    def check_bytes(self, size_bytes: int) -> None:
        """Raise if a column of so many bytes may not be made."""
        self._context.limits.check_column(size_bytes)

    def place(self, at: int) -> str:
        """Return the entities of one of the rows, for messages."""
        row = self.subset(np.array([at]))
        there = [name for name, ids in sorted(self._frame.ids.items()) if ids[at] != MISSING]
        named = [name for name in there if PRIVATE_MARK not in name]
        shown = [
            f"${name}: {row.entity_types(name)[0].as_py()} '{row.entity_ids(name)[0].as_py()}'"
            for name in named[:_PLACED]
        ]
        return ", ".join([*shown, "…"] if len(named) > _PLACED else shown)

    def subset(self, positions: Positions) -> FrameRows:
        """Return some of the rows."""
        return FrameRows(self._context, self._frame.take(positions))


class _WholeTable:
    """Every entity of a type, as predicates on one variable ask them."""

    def __init__(self, context: QueryContext, entities: Entities) -> None:
        self._context = context
        self._entities = entities
        self.length = entities.image.row_count
        self.fits_literals = context.fits_literals

    def column(self, column: Column) -> pa.Array:
        return self._entities.whole_column(column.property)

    def given(self, value: Constant | ParameterRef) -> Any:
        return self._context.given(value)

    def matches_text(self, predicate: TextMatch) -> Mask:
        return self._context.text_matches(self._entities, predicate)

    def same_entity(self, predicate: SameEntity) -> Mask:
        return np.full(self.length, predicate.left == predicate.right)

    def passes(self, condition: Condition) -> Mask:
        # One table is all that such a condition looks at, so its rows are all there is to compute with.
        ids = self._entities.all_ids
        variable = next(iter(read_variables(condition)))
        frame = Frame(length=self.length, ids={variable: ids})
        return passing(condition, FrameRows(self._context, frame))
