"""A load on the engine that suits it, and what one on Spark says beyond the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

from omnigraph.cli.engines import (
    LARGE_BYTES,
    Choice,
    Engine,
    InputSize,
    SparkRequest,
    choose_for_load,
    input_size,
    open_spark,
)
from omnigraph.cli.load_bar import LoadBar, open_bar
from omnigraph.engine.load import LoadMode, LoadResult, LoadSettings, Source
from omnigraph.engine.load.sources import STDIN, expand_sources
from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, SparkUnsupportedError, UsageError
from omnigraph.records import record

ClusterBy = Literal["key"] | Mapping[str, str]


@record
class LoadOrder:
    """What the options of a load ask for."""

    sources: Sequence[Source]
    mode: LoadMode
    branch: str
    actor: str | None
    errors_to: str | None
    patch: bool
    check_sums: bool
    cluster_by: ClusterBy | None
    spark: SparkRequest


def run_load(session: GraphSession, order: LoadOrder, *, shows_bar: bool) -> tuple[LoadResult, Choice]:
    """Load on the engine that was asked for, or that suits the input; return what it did and which one it was.

    Raises:
        OmnigraphError: whatever the load does.
    """
    size = _size(session, order)
    choice = choose_for_load(order.spark, size, local_only=_local_only(order))
    if not choice.is_spark:
        if order.cluster_by is not None:
            raise UsageError(
                "--cluster-by is for Spark",
                details=BadValue(what="arguments", value="local", expected="--engine spark"),
                hint="give --engine spark",
            )
        return _run_local(session, order, shows_bar=shows_bar), choice
    try:
        return _run_on_spark(session, order, size, shows_bar=shows_bar), choice
    except SparkUnsupportedError as problem:
        if order.spark.engine is Engine.SPARK or order.spark.names_spark or order.cluster_by is not None:
            raise
        # Nothing was published, and nobody asked for Spark.
        fallback = Choice(engine="local", reason=problem.message, is_told=True)
        return _run_local(session, order, shows_bar=shows_bar), fallback


def spark_json(result: LoadResult) -> dict[str, Any]:
    """Return what a load on Spark says beyond the others, as JSON values; nothing for the others."""
    found = _on_spark(result)
    if found is None:
        return {}
    return {
        "unchanged": dict(found.unchanged),
        "bytes_read": found.bytes_read,
        "fragments": found.fragments,
        "seconds": {step: round(taken, 3) for step, taken in found.seconds.items()},
    }


def spark_lines(result: LoadResult) -> Iterable[str]:
    """Return what a load on Spark says beyond the others, as text; nothing for the others."""
    found = _on_spark(result)
    if found is None:
        return ()
    from omnigraph.spark.progress import summary_lines  # noqa: PLC0415 - it ran on Spark, so that it is loaded

    return summary_lines(found)


def _size(session: GraphSession, order: LoadOrder) -> InputSize:
    if any(source.path == STDIN for source in order.sources):
        return InputSize(size_bytes=None)
    return input_size(expand_sources(order.sources, session.store.storage.options))


def _local_only(order: LoadOrder) -> str | None:
    return "a patch is made in one process" if order.patch else None


def _run_local(session: GraphSession, order: LoadOrder, *, shows_bar: bool) -> LoadResult:
    with open_bar(is_wanted=shows_bar) as bar:
        return session.load(
            order.sources,
            order.mode,
            patch=order.patch,
            branch=order.branch,
            actor=order.actor,
            errors_to=order.errors_to,
            progress=None if bar is None else bar.show,
            settings=LoadSettings(check_sums=order.check_sums),
        )


def _run_on_spark(session: GraphSession, order: LoadOrder, size: InputSize, *, shows_bar: bool) -> LoadResult:
    if order.patch:
        raise SparkUnsupportedError(
            "a patch cannot be loaded on spark",
            details=BadValue(what="load", value="--patch", expected="a load of whole rows"),
        )
    from omnigraph.spark import load  # noqa: PLC0415 - loaded for the loads that run on it

    is_short = size.size_bytes is not None and size.size_bytes < LARGE_BYTES
    if order.check_sums:
        expand_sources(order.sources, session.store.storage.options, check_sums=True)
    with (
        open_spark(order.spark, is_short=is_short) as spark,
        open_bar(is_wanted=shows_bar) as bar,
        _watching(spark, bar),
    ):
        return load(
            session,
            order.sources,
            order.mode,
            spark=spark,
            branch=order.branch,
            actor=order.actor,
            errors_to=order.errors_to,
            progress=None if bar is None else bar.show,
            cluster_by=order.cluster_by,
        )


def _watching(spark: Any, bar: LoadBar | None) -> Any:
    from omnigraph.spark.progress import watch_tasks  # noqa: PLC0415 - loaded for the loads that run on it

    return nullcontext() if bar is None else watch_tasks(spark, bar.show_tasks)


def _on_spark(result: LoadResult) -> Any:
    # Told by what it has: asking for the class would load Spark's room for every load.
    return result if hasattr(result, "fragments") else None
