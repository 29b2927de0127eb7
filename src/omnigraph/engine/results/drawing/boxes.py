"""What is drawn: boxes with lines of text, and named links between them."""

from __future__ import annotations

import re

from omnigraph.engine.results.layout import display_width, fit, make_visible
from omnigraph.records import record

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
