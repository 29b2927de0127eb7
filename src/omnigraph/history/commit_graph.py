"""A text drawing of commits and how they follow from each other, in plain characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import CommitId

Describe = Callable[[Commit], str]


def draw_commits(commits: Sequence[Commit], describe: Describe = str) -> list[str]:
    """Return the lines of a drawing: a star for each commit, with what ``describe`` says of it behind.

    Args:
        commits: every commit before its parents. Lines to parents that are not among them end at once.
        describe: the text of one commit, on one line.
    """
    drawing = _Drawing({commit.id for commit in commits})
    for commit in commits:
        drawing.add(commit, describe(commit))
    return drawing.lines


class _Drawing:
    """Columns from left to right, each waiting for the commit that its line leads to."""

    def __init__(self, shown: set[CommitId]) -> None:
        self.lines: list[str] = []
        self._shown = shown
        self._columns: list[CommitId] = []

    def add(self, commit: Commit, text: str) -> None:
        if commit.id not in self._columns:
            self._columns.append(commit.id)
        at = self._columns.index(commit.id)
        self._join(commit.id, at)
        stars = ["*" if number == at else "|" for number in range(len(self._columns))]
        self.lines.append(f"{' '.join(stars)}  {text}")
        self._leave(commit, at)

    def _join(self, commit_id: CommitId, at: int) -> None:
        """Lead every other column that waits for the same commit into the leftmost one."""
        while self._columns.count(commit_id) > 1:
            last = len(self._columns) - 1 - self._columns[::-1].index(commit_id)
            cells = [" "] * (2 * len(self._columns))
            for number in range(len(self._columns)):
                if number < last:
                    cells[2 * number] = "|"
                    if at <= number < last - 1:
                        cells[2 * number + 1] = "_"
                else:
                    cells[2 * number - 1] = "/"
            self._draw(cells)
            del self._columns[last]

    def _leave(self, commit: Commit, at: int) -> None:
        """Let the column go on to the parents, which may be a column more or one less."""
        first, second = (parent if parent in self._shown else None for parent in (commit.parent, commit.merged_parent))
        if first is None and second is not None:
            first, second = second, None
        if first is None:
            self._shift(at + 1, "/")
            del self._columns[at]
            return
        self._columns[at] = first
        if second is not None:
            self._shift(at + 1, "\\", branching=True)
            self._columns.insert(at + 1, second)

    def _shift(self, start: int, stroke: str, *, branching: bool = False) -> None:
        """Draw the columns from ``start`` on moving by one, if there are any; ``branching`` begins one there."""
        if not branching and start >= len(self._columns):
            return
        kept = start if branching else start - 1
        cells = [" "] * (2 * len(self._columns) + 2)
        for number in range(kept):
            cells[2 * number] = "|"
        for number in range(start, len(self._columns)):
            cells[2 * number + (1 if branching else -1)] = stroke
        if branching:
            cells[2 * start - 1] = stroke
        self._draw(cells)

    def _draw(self, cells: Sequence[str]) -> None:
        self.lines.append("".join(cells).rstrip())
