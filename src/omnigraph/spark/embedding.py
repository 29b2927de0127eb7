"""Vectors computed by executors: texts go out in pieces, vectors come back, and the driver makes the one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.engine.embedding.embedder import Embedder, Vectors
from omnigraph.engine.embedding.provider import EmbeddingProvider
from omnigraph.engine.embedding.rewrite import EmbedProgress, EmbedResult
from omnigraph.engine.embedding.settings import EmbeddingSettings
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.local.writes import embed
from omnigraph.operations.request import Attachments
from omnigraph.operations.writes import EmbedRequest
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.runner import Runner, SparkRunner
from omnigraph.spark.sessions.session import engine_of
from omnigraph.spark.sessions.sharing import session_for
from omnigraph.values import MAIN, check_callable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.graph import Graph

# Texts of one task.
_PIECE = 256


def embed_on_spark(
    graph: Graph | LocalBackend | OpenGraph,
    types: Sequence[str] | None = None,
    *,
    spark: SparkSession | None = None,
    every: bool = False,
    limit: int | None = None,
    dry_run: bool = False,
    branch: str = MAIN,
    actor: str | None = None,
    message: str | None = None,
    progress: Callable[[EmbedProgress], None] | None = None,
) -> EmbedResult:
    """Compute the stale vectors of a branch on executors and store them as one commit; see ``graph.embed``.

    Executors ask the provider that the graph was opened with: settings go to them with their key, and a provider of
    your own must be one that can be pickled. At most as many requests are under way as there are cores.

    Raises:
        TypeMissingError, UsageError: there is no such node type, or it has no vector with ``@embed``.
        SparkJobError: a job failed for a reason that is none of ours.
        OmnigraphError: whatever ``graph.embed`` raises.
    """
    engine = engine_of(graph)
    check_callable("progress", progress)
    runner = ExecutorEmbedder.of(engine, session_for(engine.store.storage, spark))
    request = EmbedRequest(
        types=types, every=every, limit=limit, dry_run=dry_run, branch=branch, actor=actor, message=message
    )
    return engine.calls.run(lambda: embed(engine, request, Attachments(progress=progress, runner=runner)))


@record
class ExecutorEmbedder:
    """Embeds texts piece by piece, each wherever ``runner`` runs it."""

    embedding: EmbeddingSettings | EmbeddingProvider
    runner: Runner
    piece: int = _PIECE

    @classmethod
    def of(cls, engine: OpenGraph, spark: SparkSession) -> ExecutorEmbedder:
        """Return one that asks what the graph asks.

        Raises:
            EmbeddingSettingsError: no provider is configured.
        """
        return cls(embedding=engine.embedder.portable(), runner=SparkRunner(spark=spark, command="embed"))

    def embed_documents(self, texts: Sequence[str], *, dimension: int, model: str | None, field: str) -> Vectors:
        """Return the vectors of texts, one row each; raises what :meth:`Embedder.embed_documents` does."""
        pieces = [tuple(texts[start : start + self.piece]) for start in range(0, len(texts), self.piece)]
        work = partial(embed_piece, self.embedding, dimension, model, field)
        parts = self.runner.run(work, pieces, "embed texts")
        return np.concatenate(parts) if parts else np.zeros((0, dimension), dtype=np.float32)


def embed_piece(
    embedding: EmbeddingSettings | EmbeddingProvider,
    dimension: int,
    model: str | None,
    field: str,
    texts: Sequence[str],
) -> Vectors:
    """Embed some texts, in whatever process this is."""
    embedder = Embedder(Runtime.system().clock, embedding)
    try:
        return embedder.embed_documents(texts, dimension=dimension, model=model, field=field)
    finally:
        embedder.close()
