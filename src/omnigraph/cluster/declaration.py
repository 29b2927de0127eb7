"""What a cluster's directory declares: every resource with its text and its digest, and what depends on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from omnigraph.records import record

CONFIG_FILE = "cluster.yaml"
CLUSTER = "cluster"
"""What a policy of the whole cluster applies to."""


class ResourceKind(StrEnum):
    """What a resource is."""

    SCHEMA = "schema"
    QUERY = "query"
    POLICY = "policy"
    EMBEDDING_PROVIDER = "embedding_provider"
    GRAPH = "graph"


class BlobScope(StrEnum):
    """Who may take in external blobs below a base: everyone, or only who opens the graph in its own process."""

    SERVER_SAFE = "server_safe"
    EMBEDDED_ONLY = "embedded_only"


def graph_address(graph_id: str) -> str:
    """Return the address of a graph.

    >>> graph_address("crm"), schema_address("crm"), query_address("crm", "find")
    ('graph.crm', 'schema.crm', 'query.crm.find')
    """
    return f"graph.{graph_id}"


def schema_address(graph_id: str) -> str:
    """Return the address of the schema of a graph."""
    return f"schema.{graph_id}"


def query_address(graph_id: str, name: str) -> str:
    """Return the address of a stored query."""
    return f"query.{graph_id}.{name}"


def policy_address(name: str) -> str:
    """Return the address of a policy bundle."""
    return f"policy.{name}"


def provider_address(name: str) -> str:
    """Return the address of an embedding provider."""
    return f"provider.embedding.{name}"


def graph_uri(storage_root: str, graph_id: str) -> str:
    """Return where a graph of a cluster lives.

    >>> graph_uri("s3://acme/atlas", "crm")
    's3://acme/atlas/graphs/crm.omni'
    """
    return f"{storage_root.rstrip('/')}/graphs/{graph_id}.omni"


@record
class EmbeddingProfile:
    """A provider of embeddings; ``api_key`` is a reference to a variable, ``${NAME}``, never a key."""

    kind: str
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return the profile as JSON values, without what is not set; digests are taken over this form."""
        told = {"kind": self.kind, "base_url": self.base_url, "model": self.model, "api_key": self.api_key}
        return {name: value for name, value in told.items() if value is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, str]) -> Self:
        """Return the profile that :meth:`to_json` wrote."""
        return cls(**document)


@record
class BlobBase:
    """A folder whose objects Blobs may be given as."""

    uri: str
    scope: BlobScope


@record
class BlobPolicy:
    """Which external blobs a graph takes in: those below its bases, which are sorted; none without a base."""

    bases: tuple[BlobBase, ...] = ()

    def to_json(self) -> dict[str, Any] | None:
        """Return the policy as JSON values, None where it denies; digests are taken over this form."""
        if not self.bases:
            return None
        return {"mode": "allow", "bases": [{"uri": base.uri, "scope": base.scope.value} for base in self.bases]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Self:
        """Return the policy that :meth:`to_json` wrote."""
        listed = [] if document is None else document["bases"]
        return cls(bases=tuple(BlobBase(uri=one["uri"], scope=BlobScope(one["scope"])) for one in listed))


@record
class DeclaredQuery:
    """A stored query. ``file`` is read for it, ``path`` is how the config names that file, ``data`` its whole text."""

    name: str
    path: str
    file: Path
    data: bytes = field(repr=False)
    digest: str


@record
class DeclaredGraph:
    """A graph that shall exist; ``provider`` is the address of its embedding provider."""

    graph_id: str
    uri: str
    schema_path: str
    schema_file: Path
    schema_data: bytes = field(repr=False)
    schema_digest: str
    queries: Mapping[str, DeclaredQuery] = field(default_factory=dict)
    provider: str | None = None
    external_blobs: BlobPolicy = field(default_factory=BlobPolicy)
    digest: str

    @property
    def address(self) -> str:
        """Its address as a resource."""
        return graph_address(self.graph_id)


@record
class DeclaredPolicy:
    """A policy bundle; ``applies_to`` is ``("cluster",)`` or addresses of graphs, sorted."""

    name: str
    path: str
    file: Path
    data: bytes = field(repr=False)
    digest: str
    applies_to: tuple[str, ...]

    @property
    def address(self) -> str:
        """Its address as a resource."""
        return policy_address(self.name)


@record
class DeclaredProvider:
    """An embedding provider."""

    name: str
    profile: EmbeddingProfile
    digest: str

    @property
    def address(self) -> str:
        """Its address as a resource."""
        return provider_address(self.name)


@record
class ClusterResource:
    """A resource by its address; ``path`` is the file that it comes from, if it comes from one."""

    address: str
    kind: ResourceKind
    digest: str
    path: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return the resource as JSON values."""
        told = {"address": self.address, "kind": self.kind.value, "digest": self.digest}
        return told if self.path is None else told | {"path": self.path}


@record(order=True)
class ResourceDependency:
    """One resource needs another one."""

    dependent: str
    needed: str

    def to_json(self) -> dict[str, str]:
        """Return the dependency as JSON values."""
        return {"from": self.dependent, "to": self.needed}


@record
class ClusterDeclaration:
    """Everything that a config declares, with the files that it names, read and checked.

    Args:
        config_dir: the directory, as it was named.
        config_file: its ``cluster.yaml``.
        storage_root: where graphs and ledger live: the absolute path of a directory, or ``s3://bucket/prefix``.
        lock_enabled: whether commands lock the ledger.
        name: the label of the cluster.
        graphs: the graphs by id.
        policies: the policy bundles by name.
        providers: the embedding providers by address.
        config_digest: the digest of everything.
    """

    config_dir: str
    config_file: str
    storage_root: str
    lock_enabled: bool = True
    name: str | None = None
    graphs: Mapping[str, DeclaredGraph] = field(default_factory=dict)
    policies: Mapping[str, DeclaredPolicy] = field(default_factory=dict)
    providers: Mapping[str, DeclaredProvider] = field(default_factory=dict)
    config_digest: str

    @property
    def resources(self) -> tuple[ClusterResource, ...]:
        """Every resource, by address."""
        found = [
            *(_resource(one.address, ResourceKind.EMBEDDING_PROVIDER, one.digest) for one in self.providers.values()),
            *(_resource(one.address, ResourceKind.POLICY, one.digest, one.path) for one in self.policies.values()),
        ]
        for graph in self.graphs.values():
            name = graph.graph_id
            found.append(_resource(graph.address, ResourceKind.GRAPH, graph.digest))
            found.append(_resource(schema_address(name), ResourceKind.SCHEMA, graph.schema_digest, graph.schema_path))
            found.extend(
                _resource(query_address(name, query.name), ResourceKind.QUERY, query.digest, query.path)
                for query in graph.queries.values()
            )
        return tuple(sorted(found, key=lambda one: one.address))

    @property
    def resource_digests(self) -> dict[str, str]:
        """The digest of every resource, by address."""
        return {resource.address: resource.digest for resource in self.resources}

    @property
    def dependencies(self) -> tuple[ResourceDependency, ...]:
        """What needs what: in which order resources can be made, and what a change reaches."""
        pairs: set[tuple[str, str]] = set()
        for graph in self.graphs.values():
            schema = schema_address(graph.graph_id)
            pairs.add((schema, graph.address))
            for name in graph.queries:
                query = query_address(graph.graph_id, name)
                pairs |= {(query, graph.address), (query, schema)}
            if graph.provider is not None:
                pairs.add((graph.address, graph.provider))
        for policy in self.policies.values():
            pairs |= {(policy.address, target) for target in policy.applies_to if target != CLUSTER}
        return tuple(ResourceDependency(dependent=one, needed=other) for one, other in sorted(pairs))


def _resource(address: str, kind: ResourceKind, digest: str, path: str | None = None) -> ClusterResource:
    return ClusterResource(address=address, kind=kind, digest=digest, path=path)
