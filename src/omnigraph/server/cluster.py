"""What a server reads of a cluster: the graphs, stored queries and policies that ``cluster.yaml`` declares.

Only this file knows the form of the directory. It reads what serving needs and refuses what it does not know; the
ledger of applied revisions is not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.engine.external_blobs import ExternalBlobs, shown_address
from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, UsageError
from omnigraph.lang.document import parse_document
from omnigraph.operations.query_files import discover_queries
from omnigraph.server.config import ServedGraph, ServerSettings

CONFIG = "cluster.yaml"
_VERSION = 1
_KEYS = frozenset({"version", "metadata", "storage", "state", "providers", "graphs", "policies"})
_GRAPH_KEYS = frozenset({"schema", "queries", "embedding_provider", "external_blobs"})
_POLICY_KEYS = frozenset({"file", "applies_to"})
_CLUSTER = "cluster"
_EMBEDDED = "embedded_only"
_SCOPES = ("server_safe", _EMBEDDED)


def cluster_settings(place: str) -> ServerSettings:
    """Return what to serve of a cluster.

    Raises:
        UsageError: it is a storage root, or the config does not say what to serve.
        FileMissingError, FileAccessError: a file that it names cannot be read.
        ConfigError: the config is not valid YAML.
    """
    if "://" in place:
        raise _wrong("a storage root cannot be served before the ledger is read", place, "a directory")
    root = Path(place)
    config = _mapping(parse_document(_read(root / CONFIG), CONFIG).root, CONFIG)
    _known(config, _KEYS, CONFIG)
    if config.get("version") != _VERSION:
        raise _wrong(f"{CONFIG} has version {config.get('version')!r}", str(config.get("version")), str(_VERSION))
    storage = str(config.get("storage") or root).rstrip("/")
    declared = _entries(config, "graphs")
    graphs = {name: _graph(root, storage, name, _part(value, name)) for name, value in declared.items()}
    server_policy: Path | None = None
    for name, value in _entries(config, "policies").items():
        policy = _part(value, name)
        _known(policy, _POLICY_KEYS, f"policies.{name}")
        file, targets = root / str(policy.get("file", "")), _targets(policy.get("applies_to"), name)
        if targets == {_CLUSTER}:
            server_policy = _bind_once(server_policy, file, _CLUSTER)
            continue
        for target in targets:
            graph = graphs.get(target)
            if graph is None:
                raise _wrong(f"policy '{name}' applies to '{target}', which is not declared", target, "a graph")
            graphs[target] = replace(graph, policy_file=_bind_once(graph.policy_file, file, target))
    if not graphs:
        raise _wrong(f"{CONFIG} declares no graph", place, "a graph")
    return ServerSettings(graphs=tuple(graphs.values()), is_cluster=True, policy_file=server_policy)


def _graph(root: Path, storage: str, name: str, declared: Mapping[str, Any]) -> ServedGraph:
    _known(declared, _GRAPH_KEYS, f"graphs.{name}")
    queries = discover_queries(root, declared.get("queries"))
    bases = blob_bases(declared.get("external_blobs"), f"graphs.{name}.external_blobs")
    return ServedGraph(graph_id=name, uri=f"{storage}/graphs/{name}.omni", queries=queries, blob_bases=bases)


def blob_bases(declared: Any, what: str) -> tuple[str, ...]:
    """Return the bases that a server takes external blobs from: those of buckets, which are safe for it.

    Raises:
        UsageError: they are declared in another form, or one is not a base.
    """
    if declared is None:
        return ()
    policy = _part(declared, what)
    _known(policy, frozenset({"allow"}), what)
    listed = [] if policy.get("allow") is None else policy["allow"]
    if not isinstance(listed, list):
        raise _wrong(f"'{what}.allow' is not a list", str(listed)[:100], "bases")
    scopes: dict[str, str] = {}
    for item in listed:
        entry = _part(item, f"{what}.allow")
        _known(entry, frozenset({"base", "scope"}), f"{what}.allow")
        base, scope = str(entry.get("base", "")), str(entry.get("scope", ""))
        if scope not in _SCOPES:
            raise _wrong(f"base '{shown_address(base)}' has no scope", scope, " or ".join(_SCOPES))
        if base.startswith("file:") and scope != _EMBEDDED:
            raise _wrong(f"base '{shown_address(base)}' is a local folder", scope, _EMBEDDED)
        scopes[base] = scope
    if len(scopes) < len(listed):
        raise _wrong(f"'{what}.allow' has the same base twice", "", "each base once")
    ExternalBlobs(bases=tuple(scopes))
    return tuple(base for base, scope in scopes.items() if scope != _EMBEDDED)


def _targets(declared: Any, policy: str) -> set[str]:
    if not isinstance(declared, list) or not declared or not all(isinstance(item, str) for item in declared):
        raise _wrong(f"policy '{policy}' does not say what it applies to", policy, "applies_to with graphs or cluster")
    found = {item.removeprefix("graph.") for item in declared}
    if _CLUSTER in found and len(found) > 1:
        raise _wrong(f"policy '{policy}' applies to the cluster and to graphs", policy, "one of the two")
    return found


def _bind_once(bound: Path | None, file: Path, target: str) -> Path:
    if bound is not None:
        raise _wrong(f"two policies apply to '{target}'", target, "one policy")
    return file


def _mapping(node: Any, what: str) -> dict[str, Any]:
    return _part(None if node is None else node.plain(), what)


def _entries(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _part({} if config.get(name) is None else config[name], name)


def _part(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(f"'{what}' is not a mapping", str(value)[:100], "names with values")
    return value


def _known(found: Mapping[str, Any], keys: frozenset[str], what: str) -> None:
    for name in found:
        if name not in keys:
            raise _wrong(f"{what} has an unknown key '{name}'", name, ", ".join(sorted(keys)))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as problem:
        raise FileMissingError(
            f"file '{path}' was not found", details=MissingThing(what="file", name=str(path))
        ) from problem
    except OSError as problem:
        why = (problem.strerror or "unreadable").lower()
        details = BadValue(what="file", value=str(path), expected="a readable file")
        raise FileAccessError(f"cannot read '{path}': {why}", details=details) from problem


def _wrong(message: str, value: str, expected: str) -> UsageError:
    return UsageError(message, details=BadValue(what="cluster", value=value, expected=expected))
