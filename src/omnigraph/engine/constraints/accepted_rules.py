"""The rules of accepted schemas, for those who publish changes of rows without knowing what a schema is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.evaluator import check_change
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.txn.changes import RowChange
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.txn.transaction import CommitView


class AcceptedRules:
    """Checks changes of rows by the schema of the state that they come to.

    Args:
        catalog_of: gives the catalog of an accepted schema.
    """

    def __init__(self, catalog_of: Callable[[AcceptedSchema], Catalog]) -> None:
        self._catalog_of = catalog_of

    def check(self, view: CommitView, changes: Mapping[str, RowChange]) -> None:
        """Return if the graph keeps every rule of its schema with ``changes`` after those before the view's.

        Raises:
            ConstraintViolationError: it would break one.
            MemoryBudgetError: the change is too large to be checked within the settings.
        """
        catalog = self._catalog_of(view.snapshot.state.schema)
        types = {key: _type_change(_owner(catalog, key), change) for key, change in sorted(changes.items())}
        check_change(GraphChange(types=types), GraphView.of_commit(view, catalog))

    def hold_apart(self, view: CommitView, changes: Mapping[str, RowChange]) -> bool:
        """Whether rows of several writes that keep the rules together keep them one after the other as well.

        Rows that are only added do: a rule that the smaller graph broke, the larger one would break, too. That is not
        so where an edge could be the reason for its own node's being there in time, where a row gives up a value that
        another one takes, and where a number of edges is asked for that one write alone does not bring.
        """
        catalog = self._catalog_of(view.snapshot.state.schema)
        owners = [_owner(catalog, key) for key in changes]
        if len({isinstance(owner, EdgeType) for owner in owners}) > 1:
            return False
        return all(_only_adds(owner, changes[owner.table_key]) for owner in owners)


def _only_adds(owner: NodeType | EdgeType, change: RowChange) -> bool:
    if len(change.deletes):
        return False
    if isinstance(owner, EdgeType):
        return change.upserts is None and owner.cardinality.minimum <= 1
    return change.upserts is None or not owner.uniques


def _type_change(owner: NodeType | EdgeType, change: RowChange) -> TypeChange:
    is_strict = change.inserts is not None and change.upserts is None
    return TypeChange(
        type=owner,
        rows=change.written,
        strict=is_strict,
        has_fresh_ids=change.has_fresh_ids and change.upserts is None,
        deletes=change.deletes,
    )


def _owner(catalog: Catalog, table_key: str) -> NodeType | EdgeType:
    kind, _, name = table_key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]
