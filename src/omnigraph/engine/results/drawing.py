"""Drawings of small graphs: boxes in columns, curves between them, as SVG that needs no browser to be made."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from omnigraph.engine.results.encodings import display_width, fit
from omnigraph.engine.results.network import Network, NodeKey, check_size
from omnigraph.records import record
from omnigraph.values.visible import make_visible

# A monospaced letter of the size that texts are drawn in.
LETTER, LINE, PAD = 7, 16, 8
_MAX_WIDTH = 40
# What XML cannot hold in any spelling.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@record
class Box:
    """A title, a line that says what it is of, and further lines."""

    title: str
    kind: str
    lines: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that stands in it, cut to what is drawn."""
        return tuple(map(shown_text, (self.title, self.kind, *self.lines)))

    @property
    def width(self) -> int:
        """How wide it is."""
        return max(map(display_width, self.texts)) * LETTER + 2 * PAD

    @property
    def height(self) -> int:
        """How high it is."""
        return len(self.texts) * LINE + 2 * PAD


@record
class Link:
    """From one box to another, by their numbers."""

    source: int
    target: int
    label: str
    is_directed: bool = True


@record
class Picture:
    """Boxes and links; ``title`` is read out by what cannot show it."""

    title: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]


def shown_text(text: str) -> str:
    r"""Return what is drawn of a text: one line, not too long, of characters that a drawing can hold.

    >>> shown_text("a\nb\ufffe")
    'a\\nb\ufffd'
    """
    return fit(_NO_XML.sub("\ufffd", make_visible(text)), _MAX_WIDTH, "truncate")[0]


# More is a ball of wool, whoever lays it out.
MAX_DRAWN = 200
_MAX_LINES = 6


def picture_of_network(network: Network, title: str) -> Picture:
    """Return the picture of a small network.

    Raises:
        ViewTooLargeError: it has more than 200 nodes, or more than 400 edges.
    """
    check_size("nodes to draw", len(network.nodes), MAX_DRAWN)
    check_size("edges to draw", len(network.edges), 2 * MAX_DRAWN)
    numbers = {key: number for number, key in enumerate(network.nodes)}
    return Picture(
        title=title,
        boxes=tuple(_node_box(key, properties) for key, properties in network.nodes.items()),
        links=tuple(
            Link(
                source=numbers[edge.source],
                target=numbers[edge.target],
                label=edge.type_name,
                is_directed=edge.is_directed,
            )
            for edge in network.edges
        ),
    )


def _node_box(key: NodeKey, properties: Mapping[str, Any]) -> Box:
    told = [f"{name}: {value}" for name, value in properties.items() if value is not None]
    rest = ("…",) if len(told) > _MAX_LINES else ()
    return Box(title=key[1], kind=key[0], lines=(*told[:_MAX_LINES], *rest))


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
        yield from _box_svg(placed, _FILLS[kinds.index(placed.box.kind) % len(_FILLS)])
    yield "</svg>"


def _box_svg(placed: Placed, fill: str) -> Iterator[str]:
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
