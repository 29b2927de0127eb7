"""Where boxes stand: in columns by their distance from the busiest box, so that no two of them ever overlap."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from omnigraph.engine.results.drawing.boxes import LETTER, Box, Picture, shown_text
from omnigraph.engine.results.layout import display_width
from omnigraph.records import record

_GAP, _MARGIN = 24, 24
# Room for a curve and its arrow beside the longest label.
_CURVE = 64
_COLUMN_BOXES = 12


@record
class Placed:
    """A box and the corner at its top left; ``column`` counts from the left."""

    box: Box
    x: int
    y: int
    column: int


@record
class Sheet:
    """Every box in its place, on a sheet that is just large enough."""

    boxes: tuple[Placed, ...]
    width: int
    height: int


def place_boxes(picture: Picture) -> Sheet:
    """Place the boxes of a picture; the same picture always gives the same sheet."""
    columns = _columns(picture)
    labels = [display_width(shown_text(link.label)) for link in picture.links]
    between = _CURVE + max(labels, default=0) * LETTER
    heights = [_height(picture, column) for column in columns]
    placed: dict[int, Placed] = {}
    x = _MARGIN
    for number, column in enumerate(columns):
        width = max(picture.boxes[item].width for item in column)
        y = _MARGIN + (max(heights) - heights[number]) // 2
        for item in column:
            box = picture.boxes[item]
            placed[item] = Placed(box=box, x=x + (width - box.width) // 2, y=y, column=number)
            y += box.height + _GAP
        x += width + between
    return Sheet(
        boxes=tuple(placed[item] for item in range(len(picture.boxes))),
        # Links between boxes of the last column bulge to the right of it.
        width=max(x, 2 * _MARGIN),
        height=max(heights, default=0) + 2 * _MARGIN,
    )


def _height(picture: Picture, column: Sequence[int]) -> int:
    return sum(picture.boxes[item].height for item in column) + _GAP * (len(column) - 1)


def _columns(picture: Picture) -> list[list[int]]:
    neighbours: list[list[int]] = [[] for _ in picture.boxes]
    for link in picture.links:
        if link.source != link.target:
            neighbours[link.source].append(link.target)
            neighbours[link.target].append(link.source)
    layers: list[list[int]] = []
    seen: set[int] = set()
    # Parts that hang together start in the same column, below each other; single boxes come last.
    for root in sorted(range(len(picture.boxes)), key=lambda item: (-len(neighbours[item]), item)):
        if root in seen:
            continue
        seen.add(root)
        waiting = deque([(root, 0)])
        while waiting:
            item, depth = waiting.popleft()
            while len(layers) <= depth:
                layers.append([])
            layers[depth].append(item)
            following = [other for other in dict.fromkeys(neighbours[item]) if other not in seen]
            seen.update(following)
            waiting.extend((other, depth + 1) for other in following)
    # A layer that is too high is broken into several columns.
    return [layer[start : start + _COLUMN_BOXES] for layer in layers for start in range(0, len(layer), _COLUMN_BOXES)]
