"""From the steps of a declaration to frames: what views and types make of the rows of sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.pipelines.mistakes import called
from omnigraph.pipelines.model import Declaration, FrameStep, ResolveStep, SourceStep, TypeStep, ViewStep
from omnigraph.pipelines.order import ordered_steps, ordered_types
from omnigraph.pipelines.running.reading import checked_frame
from omnigraph.pipelines.running.resolutions import Resolutions
from omnigraph.pipelines.sql import end_of
from omnigraph.spark.steps.counting import RowCounter
from omnigraph.spark.steps.rows import EndNaming, RowRule, StepRows
from omnigraph.spark.steps.sources import input_files, run_sql


class Frames:
    """The frames of all steps of a declaration, made from those of its sources."""

    def __init__(
        self, declaration: Declaration, sources: Mapping[str, Any], spark: Any, resolutions: Resolutions
    ) -> None:
        self._declaration = declaration
        self._resolutions = resolutions
        self._spark = spark
        self._sources = dict(sources)
        self._cached: list[Any] = []
        self._counter = RowCounter()
        self._used = _used_names(declaration)
        self._frames: dict[str, Any] = {name: self._watched(name, frame) for name, frame in sources.items()}
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

    def rows_of(self) -> dict[str, int]:
        """Return how many rows sources and views have that types were made of, when the rows of all types were read."""
        found = {name: self._counter.rows(name) for name in self._used}
        return {name: rows for name, rows in found.items() if rows is not None}

    def files(self, limit: int) -> dict[str, tuple[str, ...]]:
        """Return by source the files that rows of types come from, up to a number, as far as Spark knows them."""
        return {name: input_files(frame, limit) for name, frame in self._sources.items() if name in self._used}

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
        return frame if isinstance(step, TypeStep) else self._watched(step.name, frame)

    def _watched(self, name: str, frame: Any) -> Any:
        return self._counter.watch(name, frame) if name in self._used else frame

    def _rows(self, step: FrameStep, inputs: Mapping[str, Any]) -> Any:
        if step.function is not None:
            return checked_frame(self._declaration.name, step, called(step, step.function, list(inputs.values())))
        if step.sql is not None:
            return run_sql(self._spark, step.sql, inputs)
        (frame,) = inputs.values()
        return frame


def _used_names(declaration: Declaration) -> frozenset[str]:
    """Return the sources and views that the rows of types come from; the others are never read."""
    inputs = {step.name: step.inputs for step in declaration.frame_steps}
    waiting = [name for step in declaration.types for name in step.inputs]
    waiting += [name for step in declaration.resolves if step.same_as is not None for name in (step.name, *step.inputs)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += inputs.get(name, ())
    return frozenset(found)


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
