"""``init`` and ``open``: the two ways to a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from omnigraph.engine.embedding import EmbeddingProvider, EmbeddingSettings, check_embedding
from omnigraph.engine.maintenance.settings import MaintenanceSettings
from omnigraph.engine.session import GraphSession, init_graph
from omnigraph.graph.graph import Graph
from omnigraph.graph.handle import Handle
from omnigraph.graph.sources import schema_text
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import OpenMode
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import check_choice, check_flag, check_instance


def init(
    uri: str | Path,
    schema: str | bytes | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    settings: TxnSettings | None = None,
    group_commit: bool = False,
    embedding: EmbeddingSettings | EmbeddingProvider | None = None,
    maintenance: MaintenanceSettings | None = None,
) -> Graph:
    """Create a graph with an empty table per type of a schema, and open it.

    Args:
        uri: where it will live: a path, ``file://`` or ``s3://bucket/prefix``.
        schema: the text, or the path of a ``.pg`` file.
        storage_options: how to reach the storage; kept in memory and never shown.
        actor: who asks for it.
        settings: how durable writes are and how long they wait for others.
        group_commit: publish writes of several threads together.
        embedding: what embeds texts; the environment tells when None.
        maintenance: how much is tidied up in the background; the environment tells when None.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        FileMissingError, FileAccessError: the file of the schema is not there, or cannot be read.
        GraphExistsError: there is a graph already.
        ValueFormatError: a graph cannot live there.
    """
    _check_settings(settings, maintenance, embedding, group_commit=group_commit)
    given = schema_text(schema)
    storage = Storage.open(uri, storage_options)
    init_graph(storage, given.text, actor=actor, settings=settings, source_name=given.name)
    return open(
        uri,
        storage_options=storage_options,
        settings=settings,
        group_commit=group_commit,
        embedding=embedding,
        maintenance=maintenance,
    )


def open(  # noqa: A001 - what every library of files calls it
    uri: str | Path,
    *,
    mode: OpenMode = "read_write",
    storage_options: Mapping[str, str] | None = None,
    settings: TxnSettings | None = None,
    group_commit: bool = False,
    embedding: EmbeddingSettings | EmbeddingProvider | None = None,
    maintenance: MaintenanceSettings | None = None,
) -> Graph:
    """Open a graph. Opening for writing first ends the publishes of writers that are gone.

    Args:
        uri: where it lives: a path, ``file://`` or ``s3://bucket/prefix``.
        mode: ``read_write``, or ``read_only``, which refuses every write.
        storage_options: how to reach the storage; kept in memory and never shown.
        settings: how durable writes are and how long they wait for others.
        group_commit: publish writes of several threads together.
        embedding: what embeds texts; the environment tells when None.
        maintenance: how much is tidied up in the background; the environment tells when None.

    Raises:
        GraphMissingError: there is no graph.
        FormatUnsupportedError: its storage format is outside the range of this version.
        ForkedProcessError: this process was forked from one that had a graph open.
        UsageError: there is no such mode.
        ValueFormatError: a graph cannot live there.
    """
    check_choice("mode", mode, get_args(OpenMode))
    _check_settings(settings, maintenance, embedding, group_commit=group_commit)
    session = GraphSession.open(
        Storage.open(uri, storage_options),
        mode=mode,
        settings=settings,
        group_commit=group_commit,
        embedding=embedding,
        maintenance=maintenance,
    )
    return Graph(Handle(session, mode))


def _check_settings(
    settings: TxnSettings | None, maintenance: MaintenanceSettings | None, embedding: object, *, group_commit: bool
) -> None:
    check_instance("settings", settings, TxnSettings)
    check_instance("maintenance", maintenance, MaintenanceSettings)
    check_embedding(embedding)
    check_flag("group_commit", group_commit)
