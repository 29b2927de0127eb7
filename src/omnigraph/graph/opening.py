"""Opening graphs: those that this process opens itself, and those of a server."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omnigraph.client import ClientSettings, GraphAddress
from omnigraph.distribution import pip_install
from omnigraph.engine.open_graph import OpenGraph, init_graph
from omnigraph.errors import BadValue, UsageError
from omnigraph.graph.arguments.values import NamedText
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.request import Backend
from omnigraph.policy import Actor
from omnigraph.runtime import loading
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import OpenMode
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import check_instance, unfit

if TYPE_CHECKING:
    from omnigraph.ir.stored_queries import StoredQueries
    from omnigraph.policy.policy import Policy

INSTALL = f"install it with `{pip_install('client')}`"


def check_server_arguments(token: object, client: object) -> None:
    """Refuse arguments that no server could be asked with.

    Raises:
        UsageError: one is of another type, or a token cannot be part of a header.
    """
    check_instance("token", token, str)
    check_instance("client", client, ClientSettings)
    if isinstance(token, str) and not (token and token.isascii() and token.isprintable() and " " not in token):
        details = BadValue(what="token", value="<hidden>", expected="printable characters without blanks")
        raise UsageError("the token has characters that are not allowed", details=details)


def refuse_given(arguments: Mapping[str, object], taken_by: str) -> None:
    """Refuse arguments that are for graphs of the other kind.

    Raises:
        UsageError: one is given.
    """
    for name, value in arguments.items():
        if value is not None:
            details = BadValue(what=name, value="given", expected="not given")
            raise UsageError(f"{name} is an argument for {taken_by}", details=details)


def create_local(
    uri: str | Path,
    schema: NamedText,
    options: Mapping[str, str] | None,
    *,
    actor: str | None,
    message: str | None,
    settings: TxnSettings | None,
) -> None:
    """Create a graph with an empty table per type of a schema; raises what :func:`omnigraph.init` does."""
    storage = Storage.open(uri, options)
    init_graph(storage, schema.text, actor=actor, message=message, settings=settings, source_name=schema.name)


def open_local(
    uri: str | Path,
    options: Mapping[str, str] | None,
    *,
    mode: OpenMode,
    queries: object,
    policy: object,
    actor: object,
    **how: Any,
) -> Backend:
    """Open a graph in this process; takes and raises what :func:`omnigraph.open` does."""
    asks, decides, known = _actor(actor), _policy(policy), _stored(queries)
    opened = OpenGraph.open(Storage.open(uri, options), mode=mode, **how)
    _load_reading(opened)
    backend: Backend = LocalBackend(opened, mode)
    return _authorized(_knowing(backend, known), decides, asks)


def _load_reading(opened: OpenGraph) -> None:
    """Load what runs reads now, so that the first of them need not wait for it: most programs read."""
    with loading(much=True):
        import_module("omnigraph.engine.query.stages")
        import_module("omnigraph.operations.local.reads")
        _ = opened.reads


def _actor(given: object) -> Actor | None:
    if given is None or isinstance(given, Actor):
        return given
    if not isinstance(given, str) or not given.strip():
        raise unfit("actor", given, "a name")
    return Actor(name=given)


def _policy(given: object) -> Policy | None:
    if given is None or hasattr(given, "decide"):
        return cast("Policy | None", given)
    if not isinstance(given, str | Path):
        raise unfit("policy", given, "the path of a bundle, or a compiled policy")
    from omnigraph.policy.bundle import BundleKind  # noqa: PLC0415 - few graphs are opened with a policy
    from omnigraph.policy.policy import BundlePolicy  # noqa: PLC0415 - see above

    return BundlePolicy.from_file(given, kind=BundleKind.GRAPH)


def _stored(given: object) -> StoredQueries | None:
    if given is None:
        return None
    from omnigraph.ir.stored_queries import StoredQueries  # noqa: PLC0415 - few graphs are opened with some
    from omnigraph.operations.query_files import discover_queries  # noqa: PLC0415 - see above

    return StoredQueries.parse(discover_queries(Path(), given))


def _knowing(backend: Backend, queries: StoredQueries | None) -> Backend:
    if queries is None:
        return backend
    from omnigraph.operations.registry import RegistryBackend  # noqa: PLC0415 - see above

    return RegistryBackend(backend, queries)


def _authorized(backend: Backend, policy: Policy | None, actor: Actor | None) -> Backend:
    if policy is None and actor is None:
        return backend
    from omnigraph.operations.authorized import AuthorizedBackend  # noqa: PLC0415 - see above

    return AuthorizedBackend(backend, policy, actor)


def connect(uri: str, *, token: str | None, mode: OpenMode, settings: ClientSettings | None) -> Backend:
    """Return a backend that asks a server.

    Raises:
        ValueFormatError: it is not the address of a served graph.
        ServerUnreachableError, ServerIncompatibleError: the server cannot be reached, or is not one of this version.
        LibraryMissingError: httpx2 is not installed.
    """
    from omnigraph.engine.results.frames import library  # noqa: PLC0415 - for graphs of servers

    library("httpx2", hint=INSTALL)
    from omnigraph.client._sync.backend import RemoteBackend  # noqa: PLC0415 - needs a library that few have

    backend = RemoteBackend(GraphAddress.parse(uri), token=token, mode=mode, settings=settings)
    try:
        backend.connect()
    except BaseException:
        backend.close()
        raise
    return backend
