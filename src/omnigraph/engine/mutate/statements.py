"""The statements of a mutation, each run on what the ones before it left."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import EdgeType, NodeType, PropertyType
from omnigraph.engine.comparison import Comparison, column_of, compare
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.values import Given, repeated, whole_row
from omnigraph.errors import InternalError
from omnigraph.ir.model import (
    Compare,
    Constant,
    DeletePlan,
    InsertPlan,
    ParameterRef,
    StatementPlan,
    TargetColumn,
    UpdatePlan,
)
from omnigraph.records import record
from omnigraph.runtime import IdSource
from omnigraph.store.table import KEY


@record
class Affected:
    """How many entities statements inserted, matched or removed."""

    nodes: int = 0
    edges: int = 0

    def __add__(self, other: Affected) -> Affected:
        return Affected(nodes=self.nodes + other.nodes, edges=self.edges + other.edges)


@record
class Statements:
    """Runs statements: they read and change ``staging`` and nothing else."""

    catalog: Catalog
    staging: MutationStaging
    given: Given
    ids: IdSource

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
        self._insert(node, whole_row(node, self._assigned(node, plan)))
        return Affected(nodes=1)

    def _insert_edge(self, plan: InsertPlan) -> Affected:
        edge = self.catalog.edges[plan.type_name]
        ends = {"src": self.given.end(edge, "from", plan.from_id), "dst": self.given.end(edge, "to", plan.to_id)}
        self._insert(edge, {**ends, **whole_row(edge, self._assigned(edge, plan))})
        return Affected(edges=1)

    def _insert(self, owner: NodeType | EdgeType, values: dict[str, object]) -> None:
        is_made = owner.key is None
        chosen = str(self.ids.ulid()) if is_made else entity_id(owner, values)
        self.staging.pending(owner).insert(chosen, values, is_made=is_made)

    def _update(self, plan: UpdatePlan) -> Affected:
        node = self.catalog.nodes[plan.type_name]
        assigned = self._assigned(node, plan)
        schema = self.staging.pending(node).schema
        matched = self.staging.find(node, self._comparison(node, plan.where), schema.names)
        for name, value in assigned.items():
            column = repeated(value, _type_of(node, name), schema.field(name).type, matched.num_rows)
            matched = matched.set_column(schema.get_field_index(name), schema.field(name), column)
        if matched.num_rows:
            self.staging.pending(node).put(matched)
        return Affected(nodes=matched.num_rows)

    def _delete_nodes(self, plan: DeletePlan) -> Affected:
        node = self.catalog.nodes[plan.type_name]
        ids = self._take(node, plan)
        edges = 0
        for name in plan.cascades if ids else ():
            edge = self.catalog.edges[name]
            touching = self.staging.find_edges(edge, node, pa.array(sorted(ids), pa.string()))
            self.staging.pending(edge).remove(touching)
            edges += len(touching)
        return Affected(nodes=len(ids), edges=edges)

    def _delete_edges(self, plan: DeletePlan) -> Affected:
        return Affected(edges=len(self._take(self.catalog.edges[plan.type_name], plan)))

    def _take(self, owner: NodeType | EdgeType, plan: DeletePlan) -> Collection[str]:
        """Remove what matches and return its ids."""
        found = self.staging.find(owner, self._comparison(owner, plan.where), [KEY])
        ids: list[str] = found.column(KEY).to_pylist()
        self.staging.pending(owner).remove(ids)
        return ids

    def _assigned(self, owner: NodeType | EdgeType, plan: InsertPlan | UpdatePlan) -> dict[str, object]:
        return {assign.property: self.given.stored(owner, assign) for assign in plan.assigns}

    def _comparison(self, owner: NodeType | EdgeType, where: Compare) -> Comparison:
        left, right = where.left, where.right
        if not isinstance(left, TargetColumn) or not isinstance(right, Constant | ParameterRef):
            raise InternalError(f"a statement compares something else than a property with a value: {where}")
        column = replace(left, property=column_of(owner, left.property))
        return compare(column, where.op, self.given.value(right), right.type)


def _type_of(owner: NodeType, name: str) -> PropertyType:
    prop = owner.get(name)
    if prop is None:
        raise InternalError(f"a plan assigns a property that its type does not have: {owner.name}.{name}")
    return prop.type
