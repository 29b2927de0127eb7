"""Which step needs which: the order in which they can be computed, and circles in which none could be first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Literal

from omnigraph.errors import Mistake
from omnigraph.pipelines.mistakes import mistake_at, near_name, refuse, step_mistake
from omnigraph.pipelines.model import Declaration, FrameStep, ResolveStep, SourceStep, TypeStep, ViewStep

OrderedStep = SourceStep | FrameStep


def ordered_steps(declaration: Declaration) -> tuple[OrderedStep, ...]:
    """Return sources and the steps that make rows of them, each after its inputs.

    Among steps that could come next, sources come first, then views, node types and edge types; and otherwise those
    that were declared first.

    Raises:
        PipelineInvalidError: an input does not exist, or steps need each other.
    """
    refuse(declaration.name, graph_mistakes(declaration))
    return _ordered(declaration)


def ordered_types(declaration: Declaration) -> tuple[TypeStep, ...]:
    """Return the steps that write, node types before edge types."""
    return tuple(sorted(declaration.types, key=lambda step: step.kind == "edge"))


def sources_of(declaration: Declaration, name: str) -> tuple[SourceStep, ...]:
    """Return the sources that the rows of a step are made of, in the order of their declaration."""
    met = ancestors_of(declaration, name)
    return tuple(source for source in declaration.sources if source.name in met)


def ancestors_of(declaration: Declaration, name: str) -> frozenset[str]:
    """Return the steps that the rows of a step are made of, itself included; names that do not exist as well."""
    inputs = {step.name: _inputs(step) for step in _steps(declaration)}
    met: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in met:
            met.add(one)
            waiting += inputs.get(one, ())
    return frozenset(met)


def graph_mistakes(declaration: Declaration) -> Iterator[Mistake]:
    """Yield names that occur twice, inputs that do not exist, and circles."""
    yield from _twice(declaration)
    yield from _unknown(declaration)
    yield from _circles(declaration)


def _steps(declaration: Declaration) -> tuple[OrderedStep, ...]:
    return (*declaration.sources, *declaration.frame_steps)


def _inputs(step: OrderedStep) -> tuple[str, ...]:
    return () if isinstance(step, SourceStep) else step.inputs


def kind_of(step: OrderedStep) -> Literal["source", "view", "resolve", "node", "edge"]:
    """Return the word for a step: source, view, resolve, node or edge."""
    match step:
        case SourceStep():
            return "source"
        case ViewStep():
            return "view"
        case ResolveStep():
            return "resolve"
        case TypeStep(kind=kind):
            return kind


def _ordered(declaration: Declaration) -> tuple[OrderedStep, ...]:
    steps = _steps(declaration)
    ranks = {"source": 0, "view": 1, "resolve": 1, "node": 2, "edge": 3}
    numbers = {step.name: number for number, step in enumerate(steps)}
    waiting = {step.name: len(set(_inputs(step))) for step in steps}
    users: dict[str, list[str]] = {step.name: [] for step in steps}
    for step in steps:
        for name in set(_inputs(step)):
            users[name].append(step.name)
    ready = [(ranks[kind_of(step)], numbers[step.name]) for step in steps if not waiting[step.name]]
    heapq.heapify(ready)
    found = []
    while ready:
        step = steps[heapq.heappop(ready)[1]]
        found.append(step)
        for name in users[step.name]:
            waiting[name] -= 1
            if not waiting[name]:
                heapq.heappush(ready, (ranks[kind_of(steps[numbers[name]])], numbers[name]))
    return tuple(found)


def _twice(declaration: Declaration) -> Iterator[Mistake]:
    first: dict[str, OrderedStep] = {}
    for step in _steps(declaration):
        known = first.setdefault(step.name, step)
        if known is not step:
            message = f"two steps are called '{step.name}'"
            yield mistake_at(step.place, message, step=step.name, hint=f"the other one is declared at {known.place}")
    for parts in (declaration.checks, declaration.afters):
        seen: set[str] = set()
        for part in parts:
            if part.name in seen:
                yield mistake_at(part.place, f"two of them are called '{part.name}'", step=part.name)
            seen.add(part.name)


def _unknown(declaration: Declaration) -> Iterator[Mistake]:
    known = {step.name for step in _steps(declaration)}
    for step in declaration.frame_steps:
        for name in dict.fromkeys(step.inputs):
            if name in known:
                continue
            others = sorted(known - {step.name})
            hint = near_name(name, others) or f"declared: {', '.join(others) if others else 'no source'}"
            if name == "spark":
                hint = "only sources receive the session; a frame has it in .sparkSession"
            message = f"{kind_of(step)} '{step.name}' needs '{name}', which is not declared"
            yield step_mistake(step, message, hint, key="input" if step.sql is None else "sql")


def _circles(declaration: Declaration) -> Iterator[Mistake]:
    """Yield a mistake for each circle, at the step of it that was declared first."""
    steps = {step.name: step for step in reversed(_steps(declaration))}
    done: set[str] = set()
    for name in reversed(steps):
        circle = _circle_from(name, steps, done)
        if circle is not None:
            # Told from the step that was declared first, in the direction in which rows would go.
            order = list(reversed(steps))
            start = min(range(len(circle)), key=lambda at: order.index(circle[at]))
            turned = [*circle[start:], *circle[:start]]
            path = " → ".join([turned[0], *reversed(turned[1:]), turned[0]])
            hint = "a step cannot read its own rows"
            yield mistake_at(steps[turned[0]].place, f"steps need each other: {path}", step=turned[0], hint=hint)


def _circle_from(start: str, steps: Mapping[str, OrderedStep], done: set[str]) -> list[str] | None:
    """Return a circle that can be reached from a step, against the direction of rows; what was seen is done."""
    path: list[str] = []
    waiting: list[tuple[str, Iterator[str]]] = []

    def enter(name: str) -> None:
        path.append(name)
        waiting.append((name, iter(dict.fromkeys(_inputs(steps[name])))))

    if start in done:
        return None
    enter(start)
    found: list[str] | None = None
    while waiting:
        name, inputs = waiting[-1]
        following = next(inputs, None)
        if following is None:
            waiting.pop()
            path.pop()
            done.add(name)
        elif following in path:
            found = found or path[path.index(following) :]
        elif following in steps and following not in done:
            enter(following)
    return found
