"""Finds the brackets of a parsed text, which the tree does not record."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.lang.source import Comment, Span

_BLANKS = " \t\r\n"


class Regions:
    """The text around nodes: between a node and the next bracket stand only blanks, commas and comments.

    A tree built by hand has an empty text; all its regions are empty.
    """

    def __init__(self, text: str, comments: Sequence[Comment]) -> None:
        self._text = text
        self._next = {comment.span.start: comment.span.end for comment in comments}
        self._previous = {comment.span.end: comment.span.start for comment in comments}

    def around(self, first: Span, last: Span) -> Span:
        """Return what lies between the brackets that hold the nodes from ``first`` to ``last``."""
        return Span(self._before(first.start), self.skip(last.end))

    def skip(self, at: int) -> int:
        """Return the offset of the next token at or behind ``at``, commas not counted."""
        while at < len(self._text):
            if at in self._next:
                at = self._next[at]
            elif self._text[at] in _BLANKS or self._text[at] == ",":
                at += 1
            else:
                break
        return at

    def _before(self, at: int) -> int:
        while at > 0:
            if at in self._previous:
                at = self._previous[at]
            elif self._text[at - 1] in _BLANKS:
                at -= 1
            else:
                break
        return at
