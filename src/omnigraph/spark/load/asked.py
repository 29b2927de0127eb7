"""From what a caller asks of a load on Spark, whatever is loaded, to the request that tasks work on."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

from omnigraph.engine.load import LoadMode
from omnigraph.engine.load.options import Progress
from omnigraph.engine.session import GraphSession
from omnigraph.spark.load.clustering import ClusterBy, cluster_columns
from omnigraph.spark.load.job import LoadRequest
from omnigraph.spark.load.options import SparkLoadSettings
from omnigraph.values import CommitId, Ulid


class _Plain(TypedDict):
    mode: LoadMode
    branch: str
    actor: str | None
    message: str | None
    errors_to: str | Path | None
    progress: Progress | None
    limit: int


def request_of(
    session: GraphSession,
    *,
    expected_head: str | None,
    cluster_by: ClusterBy | None,
    settings: SparkLoadSettings | None,
    **plain: Unpack[_Plain],
) -> LoadRequest:
    """Return the request that the arguments of a public call make.

    Raises:
        UsageError: rows cannot be ordered as they say.
        ValueFormatError: the expected head is no id of a commit.
    """
    return LoadRequest(
        expected_head=commit_id(expected_head),
        cluster_by=cluster_columns(session.catalog(plain["branch"]), cluster_by),
        settings=settings or SparkLoadSettings(),
        **plain,
    )


def commit_id(text: str | None) -> CommitId | None:
    """Return the commit of a text.

    Raises:
        ValueFormatError: it is no id of a commit.
    """
    return None if text is None else CommitId(Ulid.parse(text))
