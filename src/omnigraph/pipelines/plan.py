"""What a run of a pipeline would do, step by step, to be looked at before it does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.pipelines.check import validate
from omnigraph.pipelines.model import (
    AfterStep,
    ByColumn,
    ByFiles,
    Declaration,
    Publish,
    ResolveStep,
    SourceStep,
    TypeStep,
    ViewStep,
)
from omnigraph.pipelines.order import OrderedStep, kind_of, ordered_steps, ordered_types
from omnigraph.records import record


@record
class PlannedStep:
    """A step in its turn: what it is made of, and what is done, in words."""

    name: str
    kind: str
    place: str
    inputs: tuple[str, ...] = ()
    type_name: str | None = None
    does: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "type": self.type_name,
            "inputs": list(self.inputs),
            "does": list(self.does),
            "place": self.place,
        }


@record
class Plan:
    """A plan: ``steps`` stand in the order of their computation, ``writes`` are those that write."""

    pipeline: str
    graph: str | None
    branch: str
    publish: Publish
    digest: str
    steps: tuple[PlannedStep, ...]
    writes: tuple[str, ...]
    checks: tuple[str, ...] = ()
    afters: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "pipeline": self.pipeline,
            "graph": self.graph,
            "branch": self.branch,
            "publish": self.publish,
            "digest": self.digest,
            "steps": [step.to_json() for step in self.steps],
            "writes": list(self.writes),
            "checks": list(self.checks),
            "afters": list(self.afters),
        }

    def to_lines(self) -> Iterator[str]:
        """Yield the plan as a tree: each type that is written, and below it what its rows are made of."""
        yield f"pipeline {self.pipeline} ({self.digest})"
        branches = [*self._written_lines(), *([f"check {name}"] for name in self.checks)]
        branches += [[f"after {told}"] for told in self.afters]
        branches.append([_PUBLISHED[self.publish].format(branch=self.branch, pipeline=self.pipeline)])
        for number, lines in enumerate(branches):
            yield from _hung(lines, is_last=number == len(branches) - 1)

    def __str__(self) -> str:
        return "\n".join(self.to_lines())

    def _written_lines(self) -> Iterator[list[str]]:
        shown: set[str] = set()
        names = {step.name: step for step in self.steps}
        for step in (names[name] for name in self.writes):
            yield self._lines(step, names, shown)

    def _lines(self, step: PlannedStep, names: dict[str, PlannedStep], shown: set[str]) -> list[str]:
        title = f"{step.kind} {step.name}" if step.type_name is None else f"{step.kind} {step.type_name}"
        title += f" ({step.name})" if step.type_name not in {None, step.name} else ""
        if step.name in shown:
            return [f"{title}, see above"]
        shown.add(step.name)
        below = [[line] for line in step.does] + [self._lines(names[name], names, shown) for name in step.inputs]
        lines = [title]
        for number, part in enumerate(below):
            lines += _hung(part, is_last=number == len(below) - 1)
        return lines


_PUBLISHED = {
    "direct": "commit to {branch}",
    "audit": "merge pipelines/{pipeline}/RUN into {branch} if all checks pass",
    "propose": "propose pipelines/{pipeline}/RUN for {branch} if all checks pass",
}


def _hung(lines: list[str], *, is_last: bool) -> Iterator[str]:
    first, following = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
    for number, line in enumerate(lines):
        yield f"{first if number == 0 else following}{line}"


def plan_of(declaration: Declaration, catalog: Catalog | None = None) -> Plan:
    """Return what a run would do.

    Raises:
        PipelineInvalidError: it cannot be run; all that is wrong with it is told.
    """
    validate(declaration, catalog)
    return Plan(
        pipeline=declaration.name,
        graph=declaration.graph,
        branch=declaration.branch,
        publish=declaration.publish,
        digest=declaration.digest,
        steps=tuple(map(_planned, ordered_steps(declaration))),
        writes=(
            *(step.name for step in declaration.resolves if step.same_as is not None),
            *(step.name for step in ordered_types(declaration)),
        ),
        checks=tuple(check.name for check in declaration.checks),
        afters=tuple(map(_told_after, declaration.afters)),
    )


def _planned(step: OrderedStep) -> PlannedStep:
    return PlannedStep(
        name=step.name,
        kind=kind_of(step),
        place=str(step.place),
        inputs=() if isinstance(step, SourceStep) else tuple(dict.fromkeys(step.inputs)),
        type_name=step.type_name if isinstance(step, TypeStep) else None,
        does=tuple(_does(step)),
    )


def _does(step: OrderedStep) -> Iterator[str]:
    match step:
        case SourceStep():
            if step.format is not None:
                yield " ".join([f"read {step.format}", *step.paths])
            match step.incremental:
                case ByColumn(column=column):
                    yield f"only rows with a greater {column} than before"
                case ByFiles():
                    yield "only new files"
        case ViewStep():
            if step.is_cached:
                yield "computed once"
        case ResolveStep():
            yield from _does_to_records(step)
        case TypeStep():
            yield from _does_to_type(step)


def _does_to_records(step: ResolveStep) -> Iterator[str]:
    columns = ", ".join(column for column, _, _ in step.comparisons)
    yield f"join records that agree in {columns} by {step.threshold:g}"
    if step.same_as is not None:
        yield f"keep entities by {step.same_as}, with the ids of earlier runs"
    if step.evidence is not None:
        yield f"keep pairs in {step.evidence}, where people decide"


def _does_to_type(step: TypeStep) -> Iterator[str]:
    for one in step.expect:
        limit = "" if one.max_ratio is None else f", at most {one.max_ratio:g} of the rows"
        yield f"{one.outcome} unless {one.condition} ({one.name}{limit})"
    if step.dedupe is not None:
        yield f"keep one row of a key, by {step.dedupe}"
    if step.deletes is not None:
        yield f"delete if {step.deletes}"
    if step.sequence is not None:
        yield f"the greatest {step.sequence} of a key wins"
    if step.missing_end != "fail":
        yield (
            "put edges without an end into quarantine"
            if step.missing_end == "quarantine"
            else "make stubs of missing ends"
        )
    removes = ", a full refresh removes missing ones" if step.removes_missing else ""
    yield f"{step.mode} rows{removes}"


def _told_after(after: AfterStep) -> str:
    if after.algorithm is None:
        return f"{after.name}: a mutation"
    return f"{after.name}: {after.algorithm} into {after.write}"
