"""From what was counted of a run to what is told about it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from omnigraph.pipelines.model import Declaration, ResolveStep, SourceStep, TypeStep, ViewStep
from omnigraph.pipelines.order import kind_of
from omnigraph.pipelines.results import ExpectationReport, RunReport, StepReport
from omnigraph.spark.steps import StepResult
from omnigraph.spark.steps.reading import DECODES


def with_results(
    report: RunReport,
    declaration: Declaration,
    results: Sequence[StepResult],
    *,
    rows: Mapping[str, int],
    seconds: Mapping[str, float],
    kept: Mapping[str, TypeStep],
) -> RunReport:
    """Return a report with what became of the rows.

    Args:
        report: what is known so far.
        declaration: the pipeline.
        results: what was counted of the steps that write.
        rows: by source and view how many rows it gave, as far as they were counted.
        seconds: by source how long it took to look for news.
        kept: what resolutions write beside the steps, by name.
    """
    types = {step.name: step for step in declaration.types} | dict(kept)
    passing: list[SourceStep | ViewStep | ResolveStep] = [
        *declaration.sources,
        *declaration.views,
        *declaration.resolves,
    ]
    steps = [_passed(step, rows, seconds.get(step.name, 0.0)) for step in passing]
    steps += [_written(types[result.name], result) for result in results]
    changes = {}
    for result in results:
        gone = result.deleted + result.removed + result.cascaded
        counts = {"inserted": result.inserted, "updated": result.updated, "deleted": gone}
        if any(counts.values()):
            changes[types[result.name].type_name] = counts
    return replace(
        report,
        steps=tuple(steps),
        expectations=tuple(one for result in results for one in _expectations(types[result.name], result)),
        changes=changes,
        origins=sum(result.origins for result in results),
        stubs={name: ids for result in results for name, ids in result.stub_ids.items()},
    )


def changes_something(results: Sequence[StepResult]) -> bool:
    """Whether the rows of a run change the graph."""
    return any(one.written or one.deleted or one.removed or one.cascaded or one.stubs for one in results)


def _passed(step: SourceStep | ViewStep | ResolveStep, rows: Mapping[str, int], seconds: float) -> StepReport:
    """Return what is told of a step whose rows only pass through."""
    inputs = () if isinstance(step, SourceStep) else step.inputs
    given = rows.get(step.name)
    if given is None:
        return StepReport(name=step.name, kind=kind_of(step), inputs=inputs, seconds=seconds, is_counted=False)
    # What comes into a source is what it reads.
    taken = sum(rows.get(name, 0) for name in inputs) if inputs else given
    return StepReport(name=step.name, kind=kind_of(step), rows_in=taken, rows_out=given, inputs=inputs, seconds=seconds)


def _written(step: TypeStep, result: StepResult) -> StepReport:
    return StepReport(
        name=result.name,
        kind=step.kind,
        type_name=step.type_name,
        rows_in=result.rows,
        rows_out=result.written + result.deleted,
        written=result.written,
        unchanged=result.unchanged,
        superseded=result.superseded,
        deleted=result.deleted,
        dropped=result.dropped,
        quarantined=result.quarantined,
        stubs=result.stubs,
        removed=result.removed,
        cascaded=result.cascaded,
        seconds=result.seconds,
        inputs=step.inputs,
    )


def _expectations(step: TypeStep, result: StepResult) -> Iterator[ExpectationReport]:
    for number, one in enumerate(step.expect):
        yield ExpectationReport(
            step=step.name,
            name=one.name,
            condition=one.condition,
            outcome=one.outcome,
            rows=result.rows,
            failed=result.failed[number],
            max_ratio=one.max_ratio,
            samples=tuple(json.loads(text) for text in result.samples[number]),
        )
    if result.failed and result.failed[-1]:
        yield ExpectationReport(
            step=step.name,
            name=DECODES,
            condition="every value fits its property",
            outcome="quarantine",
            rows=result.rows,
            failed=result.failed[-1],
            samples=tuple(json.loads(text) for text in result.samples[-1]),
        )
