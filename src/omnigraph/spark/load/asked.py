"""From what a caller asks of a load on Spark, whatever is loaded, to the request that tasks work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from omnigraph.engine.load import LoadMode, Source
from omnigraph.engine.load.options import Progress, check_load
from omnigraph.engine.session import GraphSession
from omnigraph.spark.load.clustering import ClusterBy, cluster_columns
from omnigraph.spark.load.job import LoadRequest
from omnigraph.spark.load.options import SparkLoadSettings
from omnigraph.values import CommitId, Ulid, check_instance, check_text, checked_names, checked_text, unfit


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
        UsageError: an argument is of another type or out of bounds, or rows cannot be ordered as they say.
        ValueFormatError: the expected head is no id of a commit.
    """
    check_load(plain["mode"], errors_to=plain["errors_to"], progress=plain["progress"], limit=plain["limit"])
    check_instance("settings", settings, SparkLoadSettings)
    for what in ("actor", "message"):
        checked_text(what, plain[what])
    return LoadRequest(
        expected_head=commit_id(expected_head),
        cluster_by=cluster_columns(session.catalog(plain["branch"]), cluster_by),
        settings=settings or SparkLoadSettings(),
        **plain,
    )


def check_sources(sources: object) -> None:
    """Refuse what is not several sources.

    Raises:
        UsageError: it is one source, or something else.
    """
    if isinstance(sources, str | bytes) or not isinstance(sources, Sequence):
        raise unfit("sources", sources, "a list of sources")
    for source in sources:
        check_instance("source", source, (str, Source), optional=False)


def check_frames(frames: object, columns: object) -> None:
    """Refuse what is not a frame per type, and names of its columns per type.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(frames, Mapping):
        raise unfit("frames", frames, "a frame per type")
    for name, frame in frames.items():
        check_text("type", name)
        if not callable(getattr(frame, "mapInArrow", None)) or isinstance(frame, type):
            raise unfit("frames", frame, "a frame per type")
    if columns is not None and not isinstance(columns, Mapping):
        raise unfit("columns", columns, "names of columns per type")
    for names in (columns or {}).values():
        if not isinstance(names, Mapping):
            raise unfit("columns", names, "names of columns per type")
        checked_names("columns", (*names, *names.values()))


def commit_id(text: str | None) -> CommitId | None:
    """Return the commit of a text.

    Raises:
        ValueFormatError: it is no id of a commit.
    """
    return None if text is None else CommitId(Ulid.parse(text))
