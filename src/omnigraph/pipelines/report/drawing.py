"""The steps of a pipeline as a drawing: boxes in columns, each right of what it takes its rows from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from omnigraph.pipelines.report.lines import PASSING, has_counts, rows_text
from omnigraph.pipelines.results import StepReport
from omnigraph.records import record

_WIDTH, _HEIGHT = 190, 54
_GAP_X, _GAP_Y = 60, 18
_LETTERS = 24


@record
class _Box:
    step: StepReport
    x: int
    y: int


def drawing(steps: Sequence[StepReport]) -> str:
    """Return the steps as SVG; an empty text when there are none."""
    if not steps:
        return ""
    boxes = _boxes(steps)
    width = max(box.x for box in boxes.values()) + _WIDTH + 2
    height = max(box.y for box in boxes.values()) + _HEIGHT + 2
    shapes = [_line(boxes[name], box) for box in boxes.values() for name in box.step.inputs if name in boxes]
    shapes += [_shape(box) for box in boxes.values()]
    label = escape(f"the steps of the pipeline: {', '.join(boxes)}")
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
    )


def columns(steps: Sequence[StepReport]) -> Mapping[str, int]:
    """Return the column of each step: one behind the last of those that it takes rows from."""
    known = {step.name: step for step in steps}
    found: dict[str, int] = {}

    def column(name: str, above: tuple[str, ...]) -> int:
        if name not in found:
            inputs = [one for one in known[name].inputs if one in known and one not in above]
            found[name] = 1 + max((column(one, (*above, name)) for one in inputs), default=-1)
        return found[name]

    for step in steps:
        column(step.name, ())
    return found


def _boxes(steps: Sequence[StepReport]) -> dict[str, _Box]:
    placed: dict[int, int] = {}
    boxes: dict[str, _Box] = {}
    where = columns(steps)
    for step in steps:
        at = where[step.name]
        row = placed.get(at, 0)
        placed[at] = row + 1
        boxes[step.name] = _Box(step=step, x=1 + at * (_WIDTH + _GAP_X), y=1 + row * (_HEIGHT + _GAP_Y))
    return boxes


def _line(start: _Box, end: _Box) -> str:
    x1, y1 = start.x + _WIDTH, start.y + _HEIGHT // 2
    x2, y2 = end.x, end.y + _HEIGHT // 2
    middle = (x1 + x2) // 2
    return f'<path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _shape(box: _Box) -> str:
    step = box.step
    rows = step.rows_out if step.kind in PASSING else step.rows_in
    told = f"{step.type_name or step.kind} · {rows_text(rows)}" if has_counts(step) else step.kind
    title = step.name if len(step.name) <= _LETTERS else f"{step.name[: _LETTERS - 1]}…"
    return (
        f'<g class="{step.kind}"><title>{escape(step.name)}</title>'
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>'
        f'<text x="{box.x + 12}" y="{box.y + 22}" class="name">{escape(title)}</text>'
        f'<text x="{box.x + 12}" y="{box.y + 42}">{escape(told)}</text></g>'
    )
