"""``find_queries``: the one place where what a command line names becomes the stored queries of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omnigraph.cli.graphs import CommandBackend, ServedAddress, cluster_graph, graph_address, open_graph
from omnigraph.cli.operator.scope import ClusterScope, find_scope, is_chosen
from omnigraph.cli.options import GraphOptions
from omnigraph.cli.usage import usage_error
from omnigraph.operations.stored import InvokeMutationRequest, InvokeReadRequest, ListQueriesRequest
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.ir.stored_queries import QueryEntry, StoredQueries
    from omnigraph.operations.request import Request
    from omnigraph.txn.graph_store import OpenMode


@record
class QueryPlace:
    """A graph with stored queries.

    Args:
        backend: answers requests about them, and all others.
        graph: the graph itself.
        queries: the queries, where they are those of files; None where a server has them.
        has_tools: whether what a query says of agents holds here.
    """

    backend: CommandBackend
    graph: CommandBackend
    queries: StoredQueries | None = None
    has_tools: bool = True

    def declared(self, request: InvokeReadRequest | InvokeMutationRequest) -> Request[Any]:
        """Return the query that an invocation stands for, for what works on queries instead of requests.

        Raises:
            UsageError: only the server knows it.
            StoredQueryMissingError, WrongQueryKindError: there is none of that name, or it is one of the other kind.
        """
        from omnigraph.operations.registry import invoked  # noqa: PLC0415 - for few calls

        if self.queries is None:
            raise usage_error(
                "only the server knows the text of its stored queries",
                value=request.name,
                expected="a graph's storage and --queries",
                hint="pass the storage of the graph and --queries PATH, or leave out the Spark options",
            )
        return invoked(self.queries, request)


@contextmanager
def find_queries(
    graph: GraphOptions,
    paths: Sequence[str] | None,
    *,
    mode: OpenMode = "read_only",
    blob_bases: Sequence[str] | None = None,
    wanted: str | None = None,
    keeps_broken: bool = False,
) -> Iterator[QueryPlace]:
    """Open a graph with its stored queries: those of the server that has it, or those of files.

    Args:
        graph: what the command line says of the graph.
        paths: the files and folders that it names; a server has its own.
        mode: whether the graph is written to.
        blob_bases: the bases of external blobs that a write may take in.
        wanted: the query that is to be run, for the error when nothing names any.
        keeps_broken: whether files that cannot be read are part of reports, instead of an error here.

    Raises:
        UsageError: a graph of a server is given files, or one of a storage none.
        QuerySyntaxError, StoredQueryDuplicateError: the files cannot be read.
        OmnigraphError: the graph cannot be opened.
    """
    scope = find_scope(graph.given)
    if isinstance(scope, ClusterScope):
        with _of_cluster(scope, paths, mode=mode, keeps_broken=keeps_broken) as place:
            yield place
        return
    address = graph_address(graph)
    if isinstance(address, ServedAddress):
        if paths:
            raise usage_error(
                "--queries does not apply to a graph of a server",
                value=paths[0],
                expected="no --queries",
                hint="leave it out; the server has its own stored queries",
            )
        with open_graph(address, mode=mode, blob_bases=blob_bases) as backend:
            yield QueryPlace(backend=backend, graph=backend)
        return
    if not paths:
        raise _no_queries(wanted)
    from omnigraph.ir.stored_queries import examine_queries  # noqa: PLC0415 - for arguments that make sense
    from omnigraph.operations.query_files import discover_queries  # noqa: PLC0415 - see above
    from omnigraph.operations.registry import RegistryBackend  # noqa: PLC0415 - see above

    examined = examine_queries(discover_queries(Path(), paths))
    known = examined.queries if keeps_broken else examined.sound()
    with open_graph(address, mode=mode, blob_bases=blob_bases) as opened:
        registry = RegistryBackend(opened, known, examined.breakages)
        yield QueryPlace(backend=cast("CommandBackend", registry), graph=opened, queries=known)


@contextmanager
def _of_cluster(
    scope: ClusterScope, paths: Sequence[str] | None, *, mode: OpenMode, keeps_broken: bool
) -> Iterator[QueryPlace]:
    """Open a graph of a cluster with the stored queries that were applied."""
    if paths:
        raise usage_error(
            "--queries does not apply to a graph of a cluster",
            value=paths[0],
            expected="no --queries",
            hint="leave it out; the cluster has its own stored queries",
        )
    from omnigraph.cluster.applied import AppliedCluster  # noqa: PLC0415 - for graphs of clusters
    from omnigraph.ir.stored_queries import examine_queries  # noqa: PLC0415 - for arguments that make sense
    from omnigraph.operations.registry import RegistryBackend  # noqa: PLC0415 - see above

    graph_id, address = cluster_graph(scope)
    examined = examine_queries(AppliedCluster(scope.place).queries(graph_id))
    known = examined.queries if keeps_broken else examined.sound()
    with open_graph(address, mode=mode) as opened:
        registry = RegistryBackend(opened, known, examined.breakages)
        yield QueryPlace(backend=cast("CommandBackend", registry), graph=opened, queries=known, has_tools=False)


def list_entries(graph: GraphOptions, paths: Sequence[str] | None) -> tuple[QueryPlace | None, tuple[QueryEntry, ...]]:
    """Return which queries there are, and the place if one was asked; files by themselves tell what they declare.

    Raises:
        OmnigraphError: whatever :func:`find_queries` raises.
    """
    if paths and not is_chosen(graph.given):
        from omnigraph.ir.stored_queries import StoredQueries  # noqa: PLC0415 - for arguments that make sense
        from omnigraph.operations.query_files import discover_queries  # noqa: PLC0415 - see above

        return None, tuple(one.entry for one in StoredQueries.parse(discover_queries(Path(), paths)))
    with find_queries(graph, paths) as place:
        return place, place.backend.execute(ListQueriesRequest())


def refuse_unused_files(paths: Sequence[str] | None, *, has_text: bool) -> None:
    """Refuse files of stored queries for a command that is given the text of its query, or no name.

    Raises:
        UsageError: there are some.
    """
    if not paths:
        return
    if has_text:
        raise usage_error(
            "--queries and the text of a query cannot be combined",
            value=paths[0],
            expected="one of them",
            hint="pass the name of a stored query without a text, or leave --queries out",
        )
    raise usage_error(
        "the graph or the name of the stored query is missing",
        value=paths[0],
        expected="GRAPH NAME",
        hint="pass the graph first, then the name of one of the queries",
    )


def _no_queries(wanted: str | None) -> Exception:
    asked = "no stored queries were named" if wanted is None else f"query '{wanted}' has no text"
    ways = "stored queries with --queries PATH, or a server, which has its own, with --server NAME --graph ID"
    return usage_error(
        asked,
        what="queries",
        value=wanted or "",
        expected="--queries, --server" if wanted is None else "--query, -e, --queries or --server",
        hint=f"give {ways}" if wanted is None else f"pass it with --query FILE or -e TEXT, {ways}",
    )
