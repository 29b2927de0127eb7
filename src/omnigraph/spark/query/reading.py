"""Relations that are read from tables: nodes that pass, edges as they are walked, and the row to begin with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.values.storage_filter import storage_filter
from omnigraph.ir.model import Direction, Predicate
from omnigraph.records import record
from omnigraph.spark.query.held import Given
from omnigraph.spark.query.layout import Layout, Property
from omnigraph.spark.query.liveness import predicate_uses
from omnigraph.spark.query.match import Match, Names, UnitTask
from omnigraph.spark.query.relations import Relation, Relations
from omnigraph.spark.query.scans import SOURCE, TARGET, EdgesTask, NodesTask
from omnigraph.spark.query.tables import Tables, columns_of, has_unique_ends
from omnigraph.spark.query.walks import Sizes
from omnigraph.store.table import KEY


@record
class Reading:
    """What the lowering of one read begins with: tables, what the request brought, and how much a worker may hold."""

    relations: Relations
    tables: Tables
    given: Given
    sizes: Sizes
    names: Names = field(default_factory=Names)
    _pairs: dict[tuple[str, Direction, str], Relation] = field(default_factory=dict)

    @property
    def facts(self) -> Facts:
        """The schema and the size of each table."""
        return self.tables.facts

    def nodes(
        self, variable: str, type_name: str, filters: tuple[Predicate, ...], live: Iterable[Property]
    ) -> tuple[Relation, Layout]:
        """Return the nodes of a type that pass, with the properties of the variable that are looked at later."""
        owner = self.facts.catalog.nodes[type_name]
        asked = {prop for item in filters for prop in properties(variable, predicate_uses(item))}
        kept = properties(variable, live) or frozenset({KEY})
        layout = columns_of(owner, variable, {prop: self.names.fresh() for prop in sorted(asked | kept)})
        table = self.tables.parts(owner)
        task = NodesTask(
            table=table,
            given=self.given,
            layout=layout,
            kept=layout.keeping((variable, prop) for prop in kept),
            predicates=filters,
            asked=storage_filter(filters, self.given.value),
        )
        return self.relations.read(task, len(table.groups)), task.kept

    def edges(self, edge: EdgeType, direction: Direction, kept: Layout | None = None) -> Relation:
        """Return every edge as it is walked, with the properties of a named one."""
        table = self.tables.parts(edge)
        task = EdgesTask(table=table, direction=direction, kept=kept or Layout())
        return self.relations.read(task, len(table.groups))

    def pairs(self, edge: EdgeType, direction: Direction, *, by: str = SOURCE) -> Relation:
        """Return every linked pair once, those that are equal in column ``by`` together.

        Many are moved by the end on which they are joined next, so that nothing is moved twice; few come from one task.
        The same pairs are one relation, which lets Spark make them once for all who use them.
        """
        key = (edge.name, direction, by)
        known = self._pairs.get(key)
        if known is None:
            known = self._pairs[key] = self._read_pairs(edge, direction, by)
        return known

    def _read_pairs(self, edge: EdgeType, direction: Direction, by: str) -> Relation:
        if has_unique_ends(edge) and direction != "both":
            return self.edges(edge, direction)
        if self.walked_rows(edge, direction) > self.sizes.broadcast_rows:
            return self.edges(edge, direction).spread([by]).distinct([SOURCE, TARGET])
        table = self.tables.parts(edge).whole()
        task = EdgesTask(table=table, direction=direction, kept=Layout(), is_distinct=True)
        return self.relations.read(task, len(table.groups))

    def next_end(self, type_name: str) -> str:
        """Return by which end to bring pairs together whose targets of a type are joined next.

        Where that type is small enough to be everywhere, pairs need not be together by their targets.
        """
        return SOURCE if self.facts.node_count(type_name) <= self.sizes.broadcast_rows else TARGET

    def walked_rows(self, edge: EdgeType, direction: Direction) -> int:
        """Return how many entries the edges of a type have in a direction, at most."""
        return self.facts.edge_count(edge.name) * (2 if direction == "both" else 1)

    def rows(self, match: Match) -> tuple[Match, Relation]:
        """Return the match with rows, also if they were left to whoever would need them."""
        if match.relation is not None:
            return match, match.relation
        if match.whole is None:
            layout = Layout(weights=(self.names.fresh(),))
            unit = self.relations.read(UnitTask(weight=layout.weights[0]), 1)
            return Match(relation=unit, layout=layout), unit
        step = match.whole
        nodes, layout = self.nodes(step.variable, step.type_name, (), [(step.variable, KEY)])
        return replace(match, relation=nodes, layout=layout, whole=None), nodes


def properties(variable: str, live: Iterable[Property]) -> frozenset[str]:
    """Return which properties of a variable are among those looked at."""
    return frozenset(prop for of, prop in live if of == variable)
