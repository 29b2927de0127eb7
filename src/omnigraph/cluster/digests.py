"""Digests: what tells whether a resource, a graph with all that belongs to it, or a whole config has changed.

All are SHA-256 in hex. Files count byte by byte; a config counts as what it says, so that its comments, the order of
its keys and its formatting do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from omnigraph.catalog.shape import canonical_json

_NUL = b"\0"


def file_digest(data: bytes) -> str:
    """Return the digest of a file: of a schema, a policy, or the file that a query is declared in."""
    return hashlib.sha256(data).hexdigest()


def provider_digest(profile: Mapping[str, str]) -> str:
    """Return the digest of an embedding provider by its profile as JSON values."""
    return file_digest(b"embedding-provider" + _NUL + msgspec.json.encode(profile))


def graph_digest(
    graph_id: str,
    *,
    schema: str,
    queries: Mapping[str, str],
    provider: tuple[str, str] | None = None,
    external_blobs: Mapping[str, Any] | None = None,
) -> str:
    """Return the composite digest of a graph.

    Args:
        graph_id: its id.
        schema: the digest of its schema.
        queries: the digests of its stored queries by name.
        provider: the address and the digest of its embedding provider.
        external_blobs: its policy for external blobs as JSON values; None denies them.
    """
    fields = ["graph", graph_id, "schema", schema]
    for name, found in sorted(queries.items()):
        fields += ["query", name, found]
    if provider is not None:
        fields += ["embedding_provider", *provider]
    if external_blobs is not None:
        fields += ["external_blob_policy", msgspec.json.encode(external_blobs).decode()]
    return file_digest(_terminated(fields))


def config_digest(parsed: Any, resources: Mapping[str, str]) -> str:
    """Return the digest of a config: what it says, as JSON values, and the digest of every resource by address."""
    fields = [field for address in sorted(resources) for field in (address, resources[address])]
    return file_digest(b"cluster-config" + _NUL + canonical_json(parsed) + _NUL + _terminated(fields))


def _terminated(fields: Iterable[str]) -> bytes:
    return b"".join(field.encode() + _NUL for field in fields)
