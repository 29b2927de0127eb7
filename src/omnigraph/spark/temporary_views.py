"""Every type of a graph as a temporary view for SQL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BadValue, UsageError
from omnigraph.operations.local import LocalBackend
from omnigraph.spark.sessions.session import engine_of, given_or_started
from omnigraph.spark.source.registration import register
from omnigraph.values import MAIN, BranchName, check_text, checked_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from omnigraph.graph.graph import Graph


def views(
    graph: Graph | LocalBackend | OpenGraph,
    spark: SparkSession | None = None,
    *,
    branch: str = MAIN,
    as_of: str | None = None,
    prefix: str = "",
) -> tuple[str, ...]:
    """Register each type as a temporary view of one commit, and return the names of the views.

    A view is called as its type, after ``prefix``. Where a node type and an edge type differ in letter case at most,
    which Spark does not tell apart, their views end in ``_node`` and ``_edge``. Views of these names are replaced.

    Args:
        graph: the open graph.
        spark: the session to work with; that of this process, or one that is started, when None.
        branch: whose newest state is shown.
        as_of: an earlier state instead, such as a commit id, ``main~3`` or ``tag:v1``.
        prefix: what the names begin with.

    Raises:
        UsageError: an argument is of another type, or two views would have one name.
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
    """
    check_text("branch", branch)
    checked_text("as_of", as_of)
    if prefix:
        check_text("prefix", prefix)
    engine = engine_of(graph)
    name = BranchName.parse(branch)
    snapshot = engine.store.snapshot(name) if as_of is None else engine.store.refs.resolve_ref(as_of, name).snapshot
    catalog = engine.catalog_at(snapshot)
    names = _view_names(catalog.nodes, catalog.edges, prefix)
    session = given_or_started(spark)
    register(session)
    storage = engine.store.storage
    options = {"graph": storage.root, "snapshot": str(snapshot.state.head.commit)}
    if storage.options:
        options["storage_options"] = json.dumps(dict(storage.options))
    for table, view in names.items():
        frame = session.read.format("omnigraph").options(**options, type=table).load()
        frame.createOrReplaceTempView(view)
    return tuple(names.values())


def _view_names(nodes: Iterable[str], edges: Iterable[str], prefix: str) -> dict[str, str]:
    """Return the view of each type, nodes first, by the name under which the data source finds the type.

    >>> _view_names(["Person", "Knows"], ["knows"], "g_")
    {'node:Person': 'g_Person', 'node:Knows': 'g_Knows_node', 'edge:knows': 'g_knows_edge'}
    """
    shared = {name.lower() for name in nodes} & {name.lower() for name in edges}
    found: dict[str, str] = {}
    for kind, some in (("node", nodes), ("edge", edges)):
        for name in some:
            end = f"_{kind}" if name.lower() in shared else ""
            found[f"{kind}:{name}"] = f"{prefix}{name}{end}"
    seen: set[str] = set()
    for view in found.values():
        if view.lower() in seen:
            details = BadValue(what="view", value=view, expected="names that differ by more than letter case")
            raise UsageError(f"two types would have the view '{view}'", details=details)
        seen.add(view.lower())
    return found
