"""What is new of the sources of a pipeline: how far they go, which rows a run reads, and what its commit says of that.

A look costs as little as possible. Files that are as they were when the last run read them need no job at all; all
other columns that grow are asked for their greatest values by one job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from omnigraph.errors import BadValue, Mistake, UsageError
from omnigraph.pipelines.mistakes import called, refuse
from omnigraph.pipelines.model import ByColumn, ByFiles, FrameStep, SourceStep
from omnigraph.pipelines.running.progress import ReadSoFar
from omnigraph.records import record
from omnigraph.runtime import Clock, side_by_side
from omnigraph.spark.jobs import describing
from omnigraph.spark.steps.sources import (
    NewestAnswer,
    NewestQuestion,
    Watermark,
    files_digest,
    find_newest,
    list_files,
    read_files,
    rows_between,
    watermark_of,
)

SEEN = "seen"
"""What stands, in the progress of a source by a column, for the files that had no row beyond its value."""

FILES = "files"
"""What stands, in the progress of a source, for the files that were read, as far as the commit tells them."""

_SHOWN_FILES = 1_000
_SOURCES_AT_ONCE = 4
_Found = TypeVar("_Found")


@record
class SourceRows:
    """What a run reads of a source.

    Args:
        read: makes the frame of the rows; it is called only by a run that has something to do.
        has_news: whether there may be rows that were not read before.
        progress: what the commit says of how far it was read.
    """

    read: Callable[[], Any]
    has_news: bool
    progress: Mapping[str, Any]


@record(frozen=False, kw_only=False)
class _Look:
    """A source that is being looked at: either its rows are known, or the greatest value of its column has to be."""

    source: SourceStep
    rows: SourceRows | None = None
    question: NewestQuestion | None = None
    seen: str | None = None


@record
class Reading:
    """How sources are read.

    Args:
        pipeline: the name of the pipeline.
        spark: the session.
        so_far: what was read before; nothing of it counts in a full refresh.
        since: where to read from instead, for sources that are read further by a column.
        limit: how many rows of each source are read, to try something out.
        storage_options: how buckets are reached.
    """

    pipeline: str
    spark: Any
    so_far: ReadSoFar
    full_refresh: bool = False
    since: str | None = None
    limit: int | None = None
    storage_options: Mapping[str, str] | None = None

    def look(
        self, sources: Sequence[SourceStep], clock: Clock, told: Callable[[str], None]
    ) -> tuple[dict[str, SourceRows], dict[str, float]]:
        """Return what is to be read of each source, and how long the look at each took.

        Args:
            sources: the sources.
            clock: what time is taken from.
            told: called with the name of a source when it is looked at.
        """
        seconds: dict[str, float] = {}

        def begin(source: SourceStep) -> _Look:
            told(source.name)
            since = clock.monotonic_s()
            with describing(self.spark, f"{self.pipeline}/{source.name}"):
                found = self._begin(source)
            seconds[source.name] = clock.monotonic_s() - since
            return found

        looks = _of_sources(sources, begin)
        asked = [look for look in looks.values() if look.question is not None]
        since = clock.monotonic_s()
        with describing(self.spark, f"{self.pipeline}/sources"):
            answers = find_newest([look.question for look in asked if look.question is not None])
        for look, answer in zip(asked, answers, strict=True):
            look.rows = self._by_column(look, answer)
            # One job asked all of them.
            seconds[look.source.name] += clock.monotonic_s() - since
        return {name: self._limited(look) for name, look in looks.items()}, seconds

    def frame_of(self, source: SourceStep) -> Any:
        """Return all rows of a source, or the stream of them that its function returns.

        Raises:
            PipelineInvalidError: its function raises something.
        """
        if source.function is not None:
            return checked_frame(self.pipeline, source, called(source, source.function, [self.spark]))
        return read_files(self.spark, source.format or "parquet", source.paths, source.options, self.storage_options)

    def _begin(self, source: SourceStep) -> _Look:
        match source.incremental:
            case None:
                progress = self._files_of(source)
                return _Look(source, SourceRows(read=lambda: self.frame_of(source), has_news=True, progress=progress))
            case ByFiles():
                return _Look(source, self._by_files(source))
            case ByColumn(column=column):
                return self._begin_column(source, column)

    def _begin_column(self, source: SourceStep, column: str) -> _Look:
        # Files are listed before rows are looked at: one that comes in between is met again.
        seen = files_digest(source.format or "", source.paths, source.options, self.storage_options or {})
        mark = self.so_far.marks.get(source.name, {})
        is_known = not self.full_refresh and self.since is None and mark.get("column") == column
        if is_known and seen is not None and mark.get(SEEN) == seen:
            told = {name: value for name, value in mark.items() if name != FILES}
            rows = SourceRows(read=lambda: self.frame_of(source).limit(0), has_news=False, progress=told)
            return _Look(source, rows)
        frame = self.frame_of(source)
        question = NewestQuestion(frame=frame, column=column, before=self._before(source, frame, column))
        return _Look(source, question=question, seen=seen)

    def _by_column(self, look: _Look, answer: NewestAnswer) -> SourceRows:
        question = look.question
        assert question is not None  # noqa: S101 - asked by the caller
        frame, before, newest = question.frame, question.before, answer.newest
        if newest is None:
            # Without a value nothing tells rows apart: they are read once.
            return SourceRows(
                read=lambda: frame if before is None else frame.limit(0), has_news=before is None, progress={}
            )
        seen = {} if look.seen is None else {SEEN: look.seen}
        if not answer.is_beyond:
            kept = self.so_far.columns.get(look.source.name, newest)
            return SourceRows(read=lambda: frame.limit(0), has_news=False, progress={**kept.to_json(), **seen})
        return SourceRows(
            read=lambda: rows_between(frame, before, newest), has_news=True, progress={**newest.to_json(), **seen}
        )

    def _before(self, source: SourceStep, frame: Any, column: str) -> Watermark | None:
        if self.since is not None:
            return watermark_of(frame, column, self.since)
        found = None if self.full_refresh else self.so_far.columns.get(source.name)
        return found if found is not None and found.column == column else None

    def _by_files(self, source: SourceStep) -> SourceRows:
        if not source.paths or source.format is None:
            details = BadValue(what="source", value=source.name, expected="a format and paths")
            raise UsageError(f"source '{source.name}' has no files for incremental reads", details=details)
        listed = list_files(source.paths, self.storage_options or {})
        known = {} if self.full_refresh else self.so_far.files.get(source.name, {})
        new = [file for file in listed if known.get(file.path) != file]
        told = {"by": "files", "files": [file.to_json() for file in new]}
        if new:
            paths = [file.path for file in new]
            return SourceRows(read=lambda: self._read(source, paths), has_news=True, progress=told)
        # One file is enough to know the columns.
        known_paths = [file.path for file in listed[:1]] or list(source.paths)
        return SourceRows(read=lambda: self._read(source, known_paths).limit(0), has_news=False, progress=told)

    def _read(self, source: SourceStep, paths: Sequence[str]) -> Any:
        return read_files(self.spark, source.format or "parquet", paths, _with_base(source), self.storage_options)

    def _limited(self, look: _Look) -> SourceRows:
        rows, limit = look.rows, self.limit
        assert rows is not None  # noqa: S101 - every look ends with them
        if limit is None:
            return rows
        # The rest has not been read, so that nothing can be said about how far that is.
        before = self.so_far.marks.get(look.source.name, {})
        return replace(rows, read=lambda: rows.read().limit(limit), progress=before)

    def _files_of(self, source: SourceStep) -> Mapping[str, Any]:
        if not source.paths:
            return {}
        listed = list_files(source.paths, self.storage_options or {})
        return {"by": "all", "files": [file.to_json() for file in listed[:_SHOWN_FILES]]}


def read_frames(
    pipeline: str, spark: Any, sources: Sequence[SourceStep], rows: Mapping[str, SourceRows]
) -> dict[str, Any]:
    """Return the frames of sources; Spark looks up the columns of files by a small job for each."""

    def read(source: SourceStep) -> Any:
        with describing(spark, f"{pipeline}/{source.name}"):
            return rows[source.name].read()

    return _of_sources(sources, read)


def checked_frame(pipeline: str, step: SourceStep | FrameStep, made: Any) -> Any:
    """Return the frame that a function made.

    Raises:
        PipelineInvalidError: it raised something, or made something else.
    """
    if isinstance(made, Mistake):
        refuse(pipeline, [made])
    if not hasattr(made, "mapInArrow"):
        details = BadValue(what="step", value=step.name, expected="a function that returns a frame")
        raise UsageError(f"step '{step.name}' returned {type(made).__name__}, not a frame", details=details)
    return made


def _of_sources(sources: Sequence[SourceStep], work: Callable[[SourceStep], _Found]) -> dict[str, _Found]:
    """Return what is found of each source. Functions of people are called one after another, all else at once."""
    plain = [source for source in sources if source.function is None]
    with ThreadPoolExecutor(_SOURCES_AT_ONCE, "omnigraph-source") as threads:
        found = dict(zip([source.name for source in plain], side_by_side(threads, work, plain), strict=True))
    found |= {source.name: work(source) for source in sources if source.function is not None}
    return {source.name: found[source.name] for source in sources}


def _with_base(source: SourceStep) -> dict[str, str]:
    """Return the options of a source, with the folder that the names of partitions are relative to."""
    (first, *others) = source.paths
    is_folder = not others and not any(sign in first for sign in "*?[") and "." not in first.rpartition("/")[2]
    return {**({"basePath": first} if is_folder else {}), **source.options}
