"""A picture as SVG: one element per box, line and curve, nothing that a page around it could collide with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from omnigraph.engine.results.drawing.boxes import LINE, PAD, Link, Picture, shown_text
from omnigraph.engine.results.drawing.placing import Placed, Sheet, place_boxes
from omnigraph.records import record

Side = Literal["left", "right"]

_FONT = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11.5px"
_BEND, _ARROW = 40, 7
_FILLS = ("#e8f0fe", "#fef3e0", "#e6f4ea", "#fce8e6", "#f3e8fd", "#e0f7fa")


def draw_svg(picture: Picture) -> str:
    """Return a complete SVG document. It is valid XML whatever the texts hold, and the same for the same picture."""
    sheet = place_boxes(picture)
    return "\n".join(_lines(picture, sheet)) + "\n"


def _lines(picture: Picture, sheet: Sheet) -> Iterator[str]:
    size = f'width="{sheet.width}" height="{sheet.height}" viewBox="0 0 {sheet.width} {sheet.height}"'
    title = shown_text(picture.title)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(title)} style="{_FONT}">'
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{sheet.width}" height="{sheet.height}" fill="#ffffff"/>'
    yield from _curves(picture, sheet)
    kinds = list(dict.fromkeys(box.kind for box in picture.boxes))
    for placed in sheet.boxes:
        yield from _box(placed, _FILLS[kinds.index(placed.box.kind) % len(_FILLS)])
    yield "</svg>"


def _box(placed: Placed, fill: str) -> Iterator[str]:
    box = placed.box
    yield (
        f'<rect x="{placed.x}" y="{placed.y}" width="{box.width}" height="{box.height}" rx="6" '
        f'fill="{fill}" stroke="#5f6368"/>'
    )
    for number, text in enumerate(box.texts):
        weight = ' font-weight="bold"' if number == 0 else ""
        color = "#5f6368" if number == 1 else "#202124"
        y = placed.y + PAD + number * LINE + 12
        yield f'<text x="{placed.x + PAD}" y="{y}" fill="{color}"{weight}>{escape(text)}</text>'


@record
class _End:
    """Where a link touches a box."""

    number: int
    side: Side


def _curves(picture: Picture, sheet: Sheet) -> Iterator[str]:
    ends = [_sides(link, sheet) for link in picture.links]
    crowd = Counter(end for pair in ends for end in pair)
    taken: Counter[_End] = Counter()
    for link, pair in zip(picture.links, ends, strict=True):
        points = []
        for end in pair:
            # Links at one side of a box share it evenly.
            taken[end] += 1
            placed = sheet.boxes[end.number]
            x = placed.x if end.side == "left" else placed.x + placed.box.width
            points.append((x, placed.y + placed.box.height * taken[end] // (crowd[end] + 1)))
        yield from _curve(link, pair, points[0], points[1])


def _sides(link: Link, sheet: Sheet) -> tuple[_End, _End]:
    source, target = sheet.boxes[link.source], sheet.boxes[link.target]
    leaves: Side = "left" if target.column < source.column else "right"
    enters: Side = "left" if target.column > source.column else "right"
    return _End(number=link.source, side=leaves), _End(number=link.target, side=enters)


def _curve(link: Link, ends: tuple[_End, _End], start: tuple[int, int], stop: tuple[int, int]) -> Iterator[str]:
    outward = [1 if end.side == "right" else -1 for end in ends]
    tip = stop[0] + outward[1] * (_ARROW if link.is_directed else 0)
    bends = start[0] + outward[0] * _BEND, tip + outward[1] * _BEND
    path = f"M {start[0]} {start[1]} C {bends[0]} {start[1]}, {bends[1]} {stop[1]}, {tip} {stop[1]}"
    yield f'<path d="{path}" fill="none" stroke="#80868b"/>'
    if link.is_directed:
        corners = f"{stop[0]},{stop[1]} {tip},{stop[1] - 4} {tip},{stop[1] + 4}"
        yield f'<polygon points="{corners}" fill="#80868b"/>'
    # The middle of the curve, by the weights of its four points.
    x = (start[0] + 3 * bends[0] + 3 * bends[1] + tip) // 8
    y = (start[1] + stop[1]) // 2
    label = escape(shown_text(link.label))
    # A link within a column bulges to the right; centred, its label would begin below the box.
    place = f'x="{x + 4}" y="{y + 4}"' if ends[0].side == ends[1].side else f'x="{x}" y="{y - 4}" text-anchor="middle"'
    yield f'<text {place} fill="#3c4043" font-size="11">{label}</text>'
