"""From the steps of a declaration to frames: what is new of the sources, and what views and types make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.errors import BadValue, Mistake, UsageError
from omnigraph.pipelines.check.calls import called
from omnigraph.pipelines.model import (
    ByColumn,
    ByFiles,
    Declaration,
    FrameStep,
    ResolveStep,
    SourceStep,
    TypeStep,
    ViewStep,
)
from omnigraph.pipelines.order import ordered_steps, ordered_types
from omnigraph.pipelines.parts import refuse
from omnigraph.pipelines.running.progress import ReadSoFar
from omnigraph.pipelines.running.resolutions import Resolutions
from omnigraph.pipelines.sql import end_of
from omnigraph.records import record
from omnigraph.spark.steps.rows import EndNaming, RowRule, StepRows
from omnigraph.spark.steps.sources import (
    Watermark,
    is_beyond,
    list_files,
    newest_value,
    read_files,
    rows_between,
    run_sql,
    watermark_of,
)

_SHOWN_FILES = 1_000


@record
class SourceRows:
    """What a run reads of a source.

    Args:
        frame: the rows.
        has_news: whether there may be rows that were not read before.
        progress: what the commit says of how far it was read.
    """

    frame: Any
    has_news: bool
    progress: Mapping[str, Any]


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

    def rows_of(self, source: SourceStep) -> SourceRows:
        """Return what is to be read of a source."""
        match source.incremental:
            case None:
                found = SourceRows(frame=self.frame_of(source), has_news=True, progress=self._files_of(source))
            case ByColumn(column=column):
                found = self._by_column(source, column)
            case ByFiles():
                found = self._by_files(source)
        if self.limit is None:
            return found
        # The rest has not been read, so that nothing can be said about how far that is.
        before = self.so_far.marks.get(source.name, {})
        return SourceRows(frame=found.frame.limit(self.limit), has_news=found.has_news, progress=before)

    def _by_column(self, source: SourceStep, column: str) -> SourceRows:
        frame = self.frame_of(source)
        newest = newest_value(frame, column)
        before = self._before(source, frame, column)
        if newest is None:
            # Without a value nothing tells rows apart: they are read once.
            return SourceRows(frame=frame if before is None else frame.limit(0), has_news=before is None, progress={})
        if not is_beyond(self.spark, newest, before):
            kept = self.so_far.columns.get(source.name, newest)
            return SourceRows(frame=frame.limit(0), has_news=False, progress=kept.to_json())
        return SourceRows(frame=rows_between(frame, before, newest), has_news=True, progress=newest.to_json())

    def _before(self, source: SourceStep, frame: Any, column: str) -> Watermark | None:
        if self.since is not None:
            return watermark_of(frame, column, self.since)
        found = None if self.full_refresh else self.so_far.columns.get(source.name)
        return found if found is not None and found.column == column else None

    def _by_files(self, source: SourceStep) -> SourceRows:
        if not source.paths or source.format is None:
            details = BadValue(what="source", value=source.name, expected="a format and paths")
            raise UsageError(f"source '{source.name}' has no files to be read further by", details=details)
        listed = list_files(source.paths, self.storage_options or {})
        known = {} if self.full_refresh else self.so_far.files.get(source.name, {})
        new = [file for file in listed if known.get(file.path) != file]
        told = {"by": "files", "files": [file.to_json() for file in new]}
        options = _with_base(source)
        if new:
            frame = read_files(self.spark, source.format, [file.path for file in new], options, self.storage_options)
        else:
            paths = [file.path for file in listed[:1]] or list(source.paths)
            frame = _nothing_of(
                lambda: read_files(self.spark, source.format or "", paths, options, self.storage_options)
            )
        return SourceRows(frame=frame, has_news=bool(new), progress=told)

    def frame_of(self, source: SourceStep) -> Any:
        """Return all rows of a source, or the stream of them that its function returns.

        Raises:
            PipelineInvalidError: its function raises something.
        """
        if source.function is not None:
            return _checked(self.pipeline, source, called(source, source.function, [self.spark]))
        return read_files(self.spark, source.format or "parquet", source.paths, source.options, self.storage_options)

    def _files_of(self, source: SourceStep) -> Mapping[str, Any]:
        if not source.paths:
            return {}
        listed = list_files(source.paths, self.storage_options or {})
        return {"by": "all", "files": [file.to_json() for file in listed[:_SHOWN_FILES]]}


def _with_base(source: SourceStep) -> dict[str, str]:
    """Return the options of a source, with the folder that the names of partitions are relative to."""
    (first, *others) = source.paths
    is_folder = not others and not any(sign in first for sign in "*?[") and "." not in first.rpartition("/")[2]
    return {**({"basePath": first} if is_folder else {}), **source.options}


def _nothing_of(read: Callable[[], Any]) -> Any:
    return read().limit(0)


def _checked(pipeline: str, step: SourceStep | FrameStep, made: Any) -> Any:
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


class Frames:
    """The frames of all steps of a declaration, made from those of its sources."""

    def __init__(
        self, declaration: Declaration, sources: Mapping[str, Any], spark: Any, resolutions: Resolutions
    ) -> None:
        self._declaration = declaration
        self._resolutions = resolutions
        self._spark = spark
        self._frames: dict[str, Any] = dict(sources)
        self._cached: list[Any] = []
        self._lineage: dict[str, tuple[str, ...]] = {name: (name,) for name in sources}
        for step in ordered_steps(declaration):
            if not isinstance(step, SourceStep):
                self._frames[step.name] = self._made(step)
                found = [name for one in step.inputs for name in self._lineage[one]]
                self._lineage[step.name] = tuple(dict.fromkeys(found))

    def steps(self, catalog: Catalog, *, full_refresh: bool) -> tuple[StepRows, ...]:
        """Return the rows of the types, nodes before edges, and what resolutions keep."""
        return self._resolutions.add_to(
            step_rows(
                step,
                self._frames[step.name],
                catalog,
                full_refresh=full_refresh,
                sources=self._lineage[step.name],
            )
            for step in ordered_types(self._declaration)
        )

    def close(self) -> None:
        """Let go of what was kept."""
        for frame in self._cached:
            frame.unpersist()
        self._resolutions.close()

    def _made(self, step: FrameStep) -> Any:
        inputs = {name: self._frames[name] for name in step.inputs}
        frame = self._rows(step, inputs)
        if isinstance(step, ViewStep) and step.is_cached:
            frame = frame.cache()
            self._cached.append(frame)
        if isinstance(step, ResolveStep):
            frame = self._resolutions.resolved(step, frame)
        return frame

    def _rows(self, step: FrameStep, inputs: Mapping[str, Any]) -> Any:
        if step.function is not None:
            return _checked(self._declaration.name, step, called(step, step.function, list(inputs.values())))
        if step.sql is not None:
            return run_sql(self._spark, step.sql, inputs)
        (frame,) = inputs.values()
        return frame


def step_rows(
    step: TypeStep, frame: Any, catalog: Catalog, *, full_refresh: bool = False, sources: tuple[str, ...] = ()
) -> StepRows:
    """Return the rows of a frame as those of a type."""
    return StepRows(
        name=step.name,
        table_key=f"{step.kind}:{step.type_name}",
        frame=frame,
        set=step.set,
        key=step.key,
        src=_end(step.src, catalog),
        dst=_end(step.dst, catalog),
        mode=step.mode,
        deletes=step.deletes,
        sequence=step.sequence,
        on_delete=step.on_delete,
        dedupe=step.dedupe,
        missing_end=step.missing_end,
        rules=tuple(RowRule(name=one.name, condition=one.condition, outcome=one.outcome) for one in step.expect),
        removes_missing=step.removes_missing and full_refresh,
        sources=sources,
    )


def _end(text: str | None, catalog: Catalog) -> EndNaming | None:
    if text is None:
        return None
    found = end_of(text, catalog.nodes)
    return EndNaming(expressions=found.expressions, is_key=found.type_name is not None)
