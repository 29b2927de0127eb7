"""Graphs of a config: their schemas, and everything that belongs to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.cluster.config.blobs import read_blobs
from omnigraph.cluster.config.files import read_named
from omnigraph.cluster.config.queries import read_queries
from omnigraph.cluster.config.section import ConfigSection
from omnigraph.cluster.declaration import DeclaredGraph, DeclaredProvider, graph_uri, provider_address
from omnigraph.cluster.digests import file_digest, graph_digest
from omnigraph.errors import (
    DiagnosticError,
    SchemaCheckError,
    SchemaSyntaxError,
    SourceEncodingError,
    SourceTooLargeError,
)
from omnigraph.lang.pg import parse_schema

KEYS = ("schema", "queries", "embedding_provider", "external_blobs")
_REMOVED = "streaming"
_PROVIDER = "provider.embedding."


def read_graphs(
    root: ConfigSection,
    storage_root: str,
    providers: Mapping[str, DeclaredProvider],
    named_providers: Collection[str],
) -> dict[str, DeclaredGraph]:
    """Return the graphs of a config by id, without those whose schema cannot be read.

    Args:
        root: the config.
        storage_root: where the graphs live.
        providers: the embedding providers that can be used.
        named_providers: the addresses of all that the config names.
    """
    found = {}
    for graph_id, section in root.sections("graphs", (*KEYS, _REMOVED)).items():
        if section.has(_REMOVED):
            message = f"{section.full_name(_REMOVED)} is not supported any more; remove it"
            section.add("removed_streaming_declaration", message, _REMOVED)
        address = _provider(section, graph_id, named_providers)
        schema = _schema(section, graph_id)
        data, catalog = (None, None) if schema is None else schema
        queries = read_queries(section, graph_id, catalog)
        blobs = read_blobs(section)
        if data is None:
            continue
        path, provider = section.text("schema") or "", providers.get(address or "")
        digest = file_digest(data)
        found[graph_id] = DeclaredGraph(
            graph_id=graph_id,
            uri=graph_uri(storage_root, graph_id),
            schema_path=path,
            schema_file=section.folder.resolve(path),
            schema_data=data,
            schema_digest=digest,
            queries=queries,
            provider=None if provider is None else provider.address,
            external_blobs=blobs,
            digest=graph_digest(
                graph_id,
                schema=digest,
                queries={name: query.digest for name, query in queries.items()},
                provider=None if provider is None else (provider.address, provider.digest),
                external_blobs=blobs.to_json(),
            ),
        )
    return found


def _provider(section: ConfigSection, graph_id: str, named: Collection[str]) -> str | None:
    written = section.text("embedding_provider")
    if written is None:
        return None
    address = provider_address(written.removeprefix(_PROVIDER))
    if address in named:
        return address
    if "." in written.removeprefix(_PROVIDER):
        message = f"graph '{graph_id}' names '{written}', which is not an embedding provider"
        section.add("wrong_kind_reference", message, "embedding_provider")
    else:
        message = f"graph '{graph_id}' names embedding provider '{written}', which is not declared"
        section.add("dangling_embedding_provider_reference", message, "embedding_provider")
    return None


def _schema(section: ConfigSection, graph_id: str) -> tuple[bytes, Catalog | None] | None:
    """Return the text of a schema and what it means, if it means something."""
    path = section.text("schema")
    if path is None:
        if section.get("schema") is None:
            section.add("invalid_cluster_yaml", f"graph '{graph_id}' has no schema")
        return None
    data = read_named(section.folder.resolve(path))
    if isinstance(data, str):
        section.add("schema_file_missing", f"cannot read schema '{path}' of graph '{graph_id}': {data}", "schema")
        return None
    try:
        return data, compile_schema(parse_schema(data, path))
    except (SchemaSyntaxError, SchemaCheckError, SourceEncodingError, SourceTooLargeError) as problem:
        code = "schema_catalog_error" if isinstance(problem, SchemaCheckError) else "schema_parse_error"
        place = problem.details.place if isinstance(problem, DiagnosticError) else None
        section.folder.findings.add(code, f"{path}:{1 if place is None else place.line}", problem.message)
    return data, None
