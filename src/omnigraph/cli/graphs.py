"""The graph that a command works on: how it is named, opened and echoed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from omnigraph.cli.lazy import quick_imports
from omnigraph.cli.operator.scope import ClusterScope, Scope, ServerScope, find_scope, named_actor
from omnigraph.cli.options import GraphOptions
from omnigraph.cli.output import write_line
from omnigraph.cli.usage import usage_error
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.operations.request import NOTHING, Attachments, Request, Response

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.operations import Backend
    from omnigraph.operations.local import LocalBackend
    from omnigraph.txn.graph_store import OpenMode


class ServedAddress(str):
    """The address of a graph of a server."""

    __slots__ = ()


def graph_address(options: GraphOptions, *, is_direct: bool = False) -> str:
    """Return the graph that is meant: given on the command line, or else by profile, environment or defaults.

    Args:
        options: what the command line says.
        is_direct: whether the command needs the storage of the graph.

    Raises:
        UsageError: it occurs twice or not at all, or is one of a server and the command needs its storage.
        ProfileMissingError, ServerMissingError, ConfigError: the config does not have what is asked for.
    """
    return scope_address(find_scope(options.given), is_direct=is_direct)


def scope_address(scope: Scope, *, is_direct: bool = False) -> str:
    """Return the address of what a command works on; raises what :func:`graph_address` does."""
    if isinstance(scope, ClusterScope):
        if not is_direct:
            raise usage_error(
                "this command does not take --cluster: it reads or writes the rows of one graph",
                what="graph",
                value=scope.place,
                expected="--server or --store",
                hint="use --server NAME --graph ID for a server of the cluster, or --store with a storage",
            )
        return cluster_graph(scope)[1]
    if not isinstance(scope, ServerScope):
        return scope
    if is_direct:
        raise usage_error(
            "this command needs the storage of the graph, not a server",
            what="graph",
            value=scope.url,
            expected="the storage of a graph",
            hint="pass the storage of the graph: a path, file:// or s3://bucket/prefix",
        )
    graph_id = scope.graph_id
    if graph_id is None:
        raise _no_graph(scope.url)
    return ServedAddress(f"{scope.url}/graphs/{graph_id}")


def cluster_graph(scope: ClusterScope) -> tuple[str, str]:
    """Return id and storage of the graph of a cluster that is meant: the one that is named, or the only one.

    Raises:
        UsageError: none is named, and there is not exactly one.
        ClusterStateError: the ledger cannot be read, or does not have it.
    """
    from omnigraph.cluster.applied import AppliedCluster  # noqa: PLC0415 - for graphs of clusters

    cluster, graph_id = AppliedCluster(scope.place), scope.graph_id
    if graph_id is None:
        if len(cluster.graphs) != 1:
            known = ", ".join(cluster.graphs)
            raise usage_error(
                "no graph of the cluster was named" if known else "no graph of the cluster has been applied",
                what="graph",
                value=scope.place,
                expected="--graph ID",
                hint=f"name one with --graph: {known}" if known else "run `omnigraph cluster apply`",
            )
        graph_id = cluster.graphs[0]
    return graph_id, cluster.graph_uri(graph_id)


def _no_graph(url: str) -> UsageError:
    from omnigraph.cli.operator.asking import list_graphs  # noqa: PLC0415 - for a command line that lacks something

    try:
        known = ", ".join(graph["graph_id"] for graph in list_graphs(url))
    except OmnigraphError:
        # Which graphs there are may be a secret; what is missing is not.
        known = ""
    return usage_error(
        "no graph of the server was named",
        what="graph",
        value=url,
        expected="--graph ID",
        hint=f"the server has {known}" if known else "name it with --graph ID, or default_graph of the operator config",
    )


class CommandBackend(Protocol):
    """What commands ask: a graph that this process has open, or one of a server."""

    @property
    def uri(self) -> str:
        """Where the graph lives."""

    @property
    def mode(self) -> OpenMode:
        """Whether the graph may be written to."""

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request."""

    def close(self) -> None:
        """Let go of the graph."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_graph(
    address: str, *, mode: OpenMode = "read_write", blob_bases: Sequence[str] | None = None
) -> CommandBackend:
    """Open the graph at a storage address, or ask the server that has it.

    Args:
        address: where it is.
        mode: whether it is written to.
        blob_bases: the bases of external blobs that a write may take in.

    Raises:
        ValueFormatError: a graph cannot live there.
        GraphMissingError: there is none.
        UsageError: it is one of a server, and the command line names an actor or bases of blobs.
        OmnigraphError: the server cannot be asked.
    """
    if not isinstance(address, ServedAddress):
        return open_storage(address, mode=mode, blob_bases=blob_bases)
    if blob_bases:
        raise usage_error(
            "--blob-base does not apply to a graph of a server",
            value=blob_bases[0],
            expected="no --blob-base",
            hint="leave it out; the server's configuration lists the allowed external blobs",
        )
    return _ask_server(address, mode)


def open_storage(
    address: str, *, mode: OpenMode = "read_write", blob_bases: Sequence[str] | None = None
) -> LocalBackend:
    """Open the graph at a storage address; takes what :func:`open_graph` does.

    Raises:
        ValueFormatError: a graph cannot live there.
        GraphMissingError: there is none.
        UsageError: a base is not the address of a folder.
    """
    with quick_imports():
        from omnigraph.engine.open_graph import OpenGraph  # noqa: PLC0415 - for arguments that make sense
        from omnigraph.operations.local import LocalBackend  # noqa: PLC0415 - see above
        from omnigraph.runtime.context import remember_commits  # noqa: PLC0415 - see above
        from omnigraph.store.location import Storage  # noqa: PLC0415 - see above

    if mode == "read_write":
        remember_commits()
    allowed: dict[str, Any] = {}
    if blob_bases:
        from omnigraph.engine.external_blobs import ExternalBlobs  # noqa: PLC0415 - few commands name any

        allowed["external_blobs"] = ExternalBlobs(bases=blob_bases)
    return LocalBackend(OpenGraph.open(Storage.open(address), mode=mode, **allowed), mode)


def is_served(backend: CommandBackend) -> bool:
    """Whether a server is asked."""
    return backend.uri.lower().startswith(("http://", "https://"))


def local_backend(backend: CommandBackend) -> LocalBackend:
    """Return a backend of this process, for what works on the storage itself.

    Raises:
        UsageError: it asks a server.
    """
    from omnigraph.operations.local import LocalBackend  # noqa: PLC0415 - a graph is open, so that it is loaded

    if isinstance(backend, LocalBackend):
        return backend
    raise usage_error(
        "Spark needs the storage of the graph, not a server",
        value=backend.uri,
        expected="the storage of a graph",
        hint="pass the storage of the graph, or leave out the Spark options",
    )


def _ask_server(address: str, mode: OpenMode) -> CommandBackend:
    named = named_actor()
    if named is not None:
        raise usage_error(
            "--as does not apply to a graph of a server",
            value=named,
            expected="no --as",
            hint="leave it out; the server records the actor of your token",
        )
    from omnigraph.cli.operator.asking import OperatorBackend  # noqa: PLC0415 - for graphs of servers

    return OperatorBackend.connect(address, mode)


def read_catalog(backend: Backend, branch: str = "main", at: str | None = None) -> Catalog:
    """Return the schema that a branch follows, or that an earlier state followed."""
    from omnigraph.engine.accepted import catalog_of  # noqa: PLC0415 - the graph is open, so that it is loaded
    from omnigraph.operations.reads import ReadStateRequest  # noqa: PLC0415 - see above

    return catalog_of(backend.execute(ReadStateRequest(branch=branch, at=at)).state.schema)


_CONSENT = frozenset({"y", "yes"})


def echo_target(label: str, address: str, *, is_quiet: bool) -> None:
    """Say on standard error which graph a write goes to."""
    if not is_quiet:
        direct = "direct, local" if _is_local(address) else "direct, remote"
        where = "served" if isinstance(address, ServedAddress) else direct
        write_line(f"omnigraph {label} → {address} ({where})", sys.stderr)


def ask_consent(label: str, address: str, *, is_given: bool, as_json: bool) -> None:
    """Return if a destructive write may go ahead: always on this machine, elsewhere with ``--yes`` or an answer.

    Raises:
        UsageError: it may not.
    """
    if is_given or _is_local(address):
        return
    is_asked = not as_json and sys.stdin.isatty()
    if is_asked and consents(f"{label} cannot be undone on {address}; continue? [y/N] "):
        return
    raise usage_error(
        f"{label} cannot be undone on a remote graph", what="consent", expected="--yes", hint="add --yes to continue"
    )


def consents(question: str) -> bool:
    """Ask on standard error, and return whether the answer is yes."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in _CONSENT


def _is_local(address: str) -> bool:
    if isinstance(address, ServedAddress):
        return False
    from omnigraph.store.location import Storage  # noqa: PLC0415 - for commands that write

    return Storage.open(address).is_local
