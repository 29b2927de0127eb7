"""Puts comments and blank lines back between the items of a formatted text.

A formatter walks its tree and knows how each item looks; what it lacks is where the comments stood. It hands the
items of one region (a file, a body, a bracketed list) to :meth:`Weaver.weave` and gets rows in the order to print:
items and comments on a line of their own, each row with the comments that follow it on its line. :func:`render_rows`
prints them. No comment is lost, none changes its text, and none passes another, so that formatting twice gives the
same text as formatting once.

A comment inside an item has no line of its own in the canonical form: it moves above the item, unless the item has a
nested region (``Item.inside``) that the formatter weaves by itself; what stands behind that region trails the item.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from omnigraph.lang.source import Comment, Span
from omnigraph.records import record

T = TypeVar("T")

INDENT = "    "


@record
class Item(Generic[T]):
    """Something to print, where it stood, and the part of it that is woven separately (between its brackets)."""

    value: T
    span: Span
    inside: Span | None = None


@record
class LayoutRow(Generic[T]):
    """One printed row: ``item`` with the comments behind it, or else a comment alone."""

    item: Item[T] | None = None
    comment: Comment | None = None
    blank_before: bool = False
    trailing: tuple[Comment, ...] = ()


@record
class Woven(Generic[T]):
    """The rows of a region, and the comments that stay on the line of its opening bracket."""

    opening: tuple[Comment, ...] = ()
    rows: tuple[LayoutRow[T], ...] = ()


class Weaver:
    """The comments of one source text; ``comments`` are in the order of the text."""

    def __init__(self, text: str, comments: Sequence[Comment]) -> None:
        self._text = text
        self._comments = comments
        self._starts = [comment.span.start for comment in comments]

    def comments_in(self, region: Span) -> Sequence[Comment]:
        """Return the comments that start inside ``region``."""
        return self._comments[bisect_left(self._starts, region.start) : bisect_left(self._starts, region.end)]

    def region_after(self, start: int, opening: str, end: int) -> Span:
        """Return the span from behind the first ``opening`` mark that stands in no comment up to ``end``."""
        at = start
        for comment in self.comments_in(Span(start, end)):
            found = self._text.find(opening, at, comment.span.start)
            if found >= 0:
                return Span(found + len(opening), end)
            at = comment.span.end
        found = self._text.find(opening, at, end)
        return Span(found + len(opening), end) if found >= 0 else Span(end, end)

    def weave_file(self, items: Sequence[Item[T]]) -> tuple[LayoutRow[T], ...]:
        """Return the rows of the whole text."""
        # A tree built by hand has no text but may hold comments; they all count as standing at its start.
        whole = Span(0, max(len(self._text), 1))
        return tuple(self._rows(items, self.comments_in(whole), 0))

    def weave(self, items: Sequence[Item[T]], region: Span) -> Woven[T]:
        """Return the rows of a bracketed region; ``region`` starts right behind its opening bracket."""
        comments = self.comments_in(region)
        first = min(items[0].span.start if items else region.end, region.end)
        opening: list[Comment] = []
        at = region.start
        for comment in comments:
            if comment.span.start >= first or self._breaks(at, comment.span.start):
                break
            opening.append(comment)
            at = comment.span.end
        following = comments[len(opening)].span.start if len(opening) < len(comments) else first
        if not self._breaks(at, min(first, following)):
            # What follows on the same line is what the comment is about.
            opening = []
            at = region.start
        rows = self._rows(items, comments[len(opening) :], at)
        return Woven(opening=tuple(opening), rows=tuple(rows))

    def _rows(self, items: Sequence[Item[T]], comments: Sequence[Comment], at: int) -> list[LayoutRow[T]]:
        rows: list[LayoutRow[T]] = []
        waiting = deque(comments)
        limits = [*(item.span.start for item in items[1:]), len(self._text) + 1]
        for item, limit in zip(items, limits, strict=False):
            at = self._lone_comments(rows, waiting, before=item.span.start, at=at)
            blank = bool(rows) and self._is_blank(at, item.span.start)
            above, behind = _split_inner(item, waiting)
            if above:
                rows += [LayoutRow(comment=comment, blank_before=blank and comment is above[0]) for comment in above]
                blank = False
            at = item.span.end
            while waiting and waiting[0].span.start < limit and not self._breaks(at, waiting[0].span.start):
                behind.append(waiting.popleft())
                at = behind[-1].span.end
            fitting = _fitting_one_line(behind)
            rows.append(LayoutRow(item=item, blank_before=blank, trailing=tuple(behind[:fitting])))
            rows += [LayoutRow(comment=comment) for comment in behind[fitting:]]
        self._lone_comments(rows, waiting, before=len(self._text) + 1, at=at)
        return rows

    def _lone_comments(self, rows: list[LayoutRow[T]], waiting: deque[Comment], *, before: int, at: int) -> int:
        while waiting and waiting[0].span.start < before:
            comment = waiting.popleft()
            blank = bool(rows) and self._is_blank(at, comment.span.start)
            rows.append(LayoutRow(comment=comment, blank_before=blank))
            at = comment.span.end
        return at

    def _is_blank(self, start: int, end: int) -> bool:
        return self._text.count("\n", start, end) > 1

    def _breaks(self, start: int, end: int) -> bool:
        return self._text.find("\n", start, end) >= 0


def separate_rows(rows: Sequence[LayoutRow[T]], may_touch: Callable[[T, T], bool]) -> list[LayoutRow[T]]:
    """Return ``rows`` with a blank line above every item and the comments that stand right on top of it.

    ``may_touch`` says which neighbours keep the spacing they were written with.
    """
    spaced = list(rows)
    previous: T | None = None
    start = 0
    for index, row in enumerate(spaced):
        if row.blank_before:
            start = index
        if row.item is None:
            continue
        if previous is not None and not may_touch(previous, row.item.value):
            spaced[start] = replace(spaced[start], blank_before=True)
        previous = row.item.value
        start = index + 1
    return spaced


def render_rows(rows: Sequence[LayoutRow[T]], write: Callable[[Item[T]], list[str]], *, depth: int = 0) -> list[str]:
    """Print ``rows``: what ``write`` gives for an item is a list of lines, indented here by ``depth`` steps.

    An entry of the answer may hold line breaks of its own, those of a comment: they are not to be touched.
    """
    lines: list[str] = []
    for row in rows:
        if row.blank_before:
            lines.append("")
        if row.item is not None:
            lines += [f"{INDENT * depth}{line}" if line else "" for line in write(row.item)]
            lines[-1] = append_comments(lines[-1], row.trailing)
        elif row.comment is not None:
            lines.append(f"{INDENT * depth}{row.comment.text}")
    return lines


def append_comments(line: str, comments: Sequence[Comment]) -> str:
    """Return ``line`` with ``comments`` behind it."""
    return " ".join([line, *(comment.text for comment in comments)])


def join_lines(lines: Sequence[str]) -> str:
    """Return a whole text: one line break at the end, and nothing at all for no lines."""
    return "".join(f"{line}\n" for line in lines)


def _split_inner(item: Item[T], waiting: deque[Comment]) -> tuple[list[Comment], list[Comment]]:
    """Take the comments inside ``item`` off the queue: those that go above it and those that go behind it."""
    above: list[Comment] = []
    behind: list[Comment] = []
    while waiting and waiting[0].span.start < item.span.end:
        comment = waiting.popleft()
        if item.inside is None or comment.span.start < item.inside.start:
            above.append(comment)
        elif comment.span.start >= item.inside.end:
            behind.append(comment)
    return above, behind


def _fitting_one_line(comments: Sequence[Comment]) -> int:
    """Return how many comments one line can hold: nothing can follow a line comment."""
    for index, comment in enumerate(comments):
        if comment.text.startswith("//"):
            return index + 1
    return len(comments)
