"""Which graph a command works on: a storage or a graph of a server, by options, profile, environment or defaults."""

from __future__ import annotations

import os
from contextvars import ContextVar

from omnigraph.cli.operator.config import (
    PROFILE_VARIABLE,
    STORE_VARIABLE,
    OperatorConfig,
    Profile,
    find_named,
    operator_config,
)
from omnigraph.cli.usage import usage_error
from omnigraph.errors import MissingThing, ServerMissingError
from omnigraph.records import record

WAYS = (
    f"or use --store URI, --server NAME --graph ID, --profile NAME, {STORE_VARIABLE}, {PROFILE_VARIABLE} or defaults "
    "of the operator config"
)

# What the command line of this process said. The options stand on every command that opens a graph, and none of them
# has to hand them on.
_chosen_profile: ContextVar[str | None] = ContextVar("chosen_profile", default=None)
_chosen_server: ContextVar[str | None] = ContextVar("chosen_server", default=None)
_chosen_cluster: ContextVar[str | None] = ContextVar("chosen_cluster", default=None)
_chosen_graph: ContextVar[str | None] = ContextVar("chosen_graph", default=None)
_named_actor: ContextVar[str | None] = ContextVar("named_actor", default=None)


@record
class ServerScope:
    """A graph of a server: its base address, and the id of the graph if something names it."""

    url: str
    graph_id: str | None = None


@record
class ClusterScope:
    """A graph of a cluster: the directory or storage root of the cluster, and the id of the graph if it is named."""

    place: str
    graph_id: str | None = None


Scope = str | ServerScope | ClusterScope
"""What a command works on: the address of a storage, or a graph of a server or of a cluster."""


def choose_profile(name: str | None) -> None:
    """Keep what ``--profile`` said."""
    _chosen_profile.set(name)


def choose_server(name: str | None) -> None:
    """Keep what ``--server`` said."""
    _chosen_server.set(name)


def choose_cluster(name: str | None) -> None:
    """Keep what ``--cluster`` said."""
    _chosen_cluster.set(name)


def choose_graph(graph_id: str | None) -> None:
    """Keep what ``--graph`` said."""
    _chosen_graph.set(graph_id)


def choose_actor(given: str | None) -> str | None:
    """Keep what ``--as`` said, and return who writes: the actor that was given, or else the operator.

    Raises:
        ConfigError: the config is not valid.
    """
    _named_actor.set(given)
    return operator_config().actor if given is None else given


def named_actor() -> str | None:
    """Return the actor that the command line names."""
    return _named_actor.get()


def chosen_graph() -> str | None:
    """Return the graph that the command line names."""
    return _chosen_graph.get()


def chosen_profile() -> str | None:
    """Return the profile that the command line names."""
    return _chosen_profile.get()


def active_profile() -> str | None:
    """Return the name of the profile that is asked for, by option or else by environment."""
    chosen = _chosen_profile.get()
    return (os.environ.get(PROFILE_VARIABLE) or None) if chosen is None else chosen


def is_chosen(given: str | None) -> bool:
    """Whether the command line itself names what the command works on; ``given`` is the address, if it has one."""
    chosen = (given, _chosen_server.get(), _chosen_cluster.get(), _chosen_profile.get())
    return any(one is not None for one in chosen)


def environment_store() -> str | None:
    """Return the storage that the environment names; a profile that the command line names goes before it."""
    return None if _chosen_profile.get() is not None else os.environ.get(STORE_VARIABLE) or None


def has_remembered_scope() -> bool:
    """Whether environment or config name a graph, so that a command line need not.

    Raises:
        ConfigError: the config has to be asked and is not valid.
    """
    if _chosen_server.get() or _chosen_cluster.get() or environment_store() or active_profile():
        return True
    defaults = operator_config().defaults
    return bool(defaults.store or defaults.server)


def find_scope(given: str | None) -> Scope:
    """Return what a command works on.

    Args:
        given: the address that the command line names.

    Raises:
        UsageError: nothing names a graph, or two options contradict each other.
        ProfileMissingError, ServerMissingError: the config has no profile or server of that name.
        ConfigError: the config, or the profile, is not valid.
    """
    server, cluster, graph_id = _chosen_server.get(), _chosen_cluster.get(), _chosen_graph.get()
    named = {"the address of a graph": given, "--server": server, "--cluster": cluster}
    ways = [way for way, value in named.items() if value is not None]
    if len(ways) > 1:
        shown = str(given or server)
        raise usage_error(f"{' and '.join(ways)} are mutually exclusive", value=shown, expected="one of them")
    if given is not None:
        return _storage(given, graph_id)
    if cluster is not None:
        return ClusterScope(place=cluster_place(operator_config(), cluster), graph_id=graph_id)
    if server is not None:
        return ServerScope(url=server_url(operator_config(), server), graph_id=graph_id)
    stored = environment_store()
    if stored is not None:
        return _storage(stored, graph_id)
    return _remembered(operator_config(), graph_id)


def _remembered(config: OperatorConfig, graph_id: str | None) -> Scope:
    name, defaults = active_profile(), config.defaults
    if name is not None:
        return profile_scope(config, find_named(config, "profile", name), graph_id)
    if defaults.server is not None:
        url = server_url(config, defaults.server)
        return ServerScope(url=url, graph_id=graph_id or defaults.default_graph)
    if defaults.store is not None:
        return _storage(defaults.store, graph_id)
    raise usage_error(
        "no graph was named",
        what="graph",
        expected="GRAPH or --store URI",
        hint=f"pass its address first: a path, file:// or s3://bucket/prefix; {WAYS}",
    )


def profile_scope(config: OperatorConfig, profile: Profile, graph_id: str | None = None) -> Scope:
    """Return what a profile names; ``graph_id`` goes before its default graph.

    Raises:
        ConfigError: it names nothing, or two things.
        ServerMissingError: it names a server that the config does not have.
    """
    profile.check()
    if profile.server is not None:
        return ServerScope(url=server_url(config, profile.server), graph_id=graph_id or profile.default_graph)
    if profile.cluster is not None:
        place = cluster_place(config, profile.cluster)
        return ClusterScope(place=place, graph_id=graph_id or profile.default_graph)
    return _storage(profile.storage(), graph_id)


def cluster_place(config: OperatorConfig, name: str) -> str:
    """Return the directory or storage root of a cluster: the name of one of the config, or the place itself."""
    return config.clusters.get(name, name)


def has_chosen_cluster() -> bool:
    """Whether the command line names a cluster."""
    return _chosen_cluster.get() is not None


def bound_cluster() -> ClusterScope | None:
    """Return the cluster that the command line names, or that the profile which is asked for is bound to."""
    chosen, graph_id = _chosen_cluster.get(), _chosen_graph.get()
    if chosen is not None:
        return ClusterScope(place=cluster_place(operator_config(), chosen), graph_id=graph_id)
    name = active_profile()
    if name is None:
        return None
    scope = profile_scope(operator_config(), find_named(operator_config(), "profile", name), graph_id)
    return scope if isinstance(scope, ClusterScope) else None


def server_url(config: OperatorConfig, name: str) -> str:
    """Return the base address of a server: the name of one of the config, or the address itself.

    Raises:
        ServerMissingError: the config has no server of that name.
    """
    url = name if "://" in name else config.servers.get(name)
    if url is None:
        known = tuple(config.servers)
        raise ServerMissingError(
            f"server '{name}' was not found",
            details=MissingThing(what="server", name=name, near=known),
            hint=f"known servers: {', '.join(known)}" if known else f"no server is defined in {config.path}",
        )
    return url.rstrip("/")


def _storage(address: str, graph_id: str | None) -> str:
    if graph_id is not None:
        raise usage_error(
            "--graph names a graph of a server or a cluster, and a storage holds one graph",
            value=graph_id,
            expected="--server or --cluster with --graph",
            hint="leave --graph out, or add --server or --cluster",
        )
    if not address.lower().startswith(("http://", "https://")):
        return address
    raise usage_error(
        "the address of a server is not a storage",
        what="graph",
        value=address,
        expected="the storage of a graph",
        hint="use --server URL --graph ID for a graph of a server",
    )
