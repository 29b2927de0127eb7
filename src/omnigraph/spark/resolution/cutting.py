"""Clusters that hold two records which people decided to be different, taken apart; what one task does.

The links of such a cluster are made again, one by one: first those that people decided, then by score from the highest
down, equal scores by the ids of their records. A link that would bring together two records decided to be different is
left out. So the weakest links are the ones that go, and the order of rows decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa

from omnigraph.errors import ContradictingDecisionsError, DecidedPairs
from omnigraph.records import record
from omnigraph.spark.resolution.model import Verdict

_SHOWN = 10


@record
class Link:
    """Two records of a cluster: people's verdict about them, or a score that joins them."""

    left: str
    right: str
    score: float | None
    verdict: Verdict | None


@record
class CutTask:
    """Takes clusters apart whose links come one after the other, in columns of those names beside ``label``."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out: records, and the smallest record of the part of the cluster that they are in."""
        return pa.schema([("key", pa.string()), ("part", pa.string())])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of each cluster.

        Raises:
            ContradictingDecisionsError: people decided what cannot be.
        """
        label: str | None = None
        links: list[Link] = []
        for batch in batches:
            for row in batch.to_pylist():
                if row["label"] != label:
                    yield from self._parts(links)
                    label, links = row["label"], []
                links.append(Link(**{name: row[name] for name in ("left", "right", "score", "verdict")}))
        yield from self._parts(links)

    def _parts(self, links: list[Link]) -> Iterator[pa.RecordBatch]:
        if links:
            found = cut(links)
            yield pa.record_batch([pa.array(found), pa.array(found.values())], schema=self.schema)


def cut(links: Sequence[Link]) -> dict[str, str]:
    """Return the records of a cluster, each with the smallest record of its part.

    Raises:
        ContradictingDecisionsError: two records are decided to be different, and by other decisions the same.
    """
    parts = _Parts(sorted({key for link in links for key in (link.left, link.right)}))
    decided = sorted((link.left, link.right) for link in links if link.verdict == "same")
    apart = sorted((link.left, link.right) for link in links if link.verdict == "different")
    for left, right in decided:
        parts.join(left, right)
    broken = [pair for pair in apart if parts.find(pair[0]) == parts.find(pair[1])]
    if broken:
        raise _contradiction(decided, broken)
    for left, right in apart:
        parts.separate(left, right)
    scored = [link for link in links if link.verdict is None and link.score is not None]
    for link in sorted(scored, key=lambda one: (-(one.score or 0.0), one.left, one.right)):
        parts.join(link.left, link.right)
    return parts.smallest()


class _Parts:
    """Records in parts that are joined unless they must stay apart."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._parent = {key: key for key in keys}
        self._members = {key: [key] for key in keys}
        self._apart: dict[str, set[str]] = {key: set() for key in keys}

    def find(self, key: str) -> str:
        """Return the record that stands for the part of another one."""
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def separate(self, left: str, right: str) -> None:
        """Let two parts never be joined."""
        one, two = self.find(left), self.find(right)
        self._apart[one].add(two)
        self._apart[two].add(one)

    def join(self, left: str, right: str) -> None:
        """Make two parts one, unless they must stay apart."""
        one, two = self.find(left), self.find(right)
        if one == two or two in self._apart[one]:
            return
        if len(self._members[one]) < len(self._members[two]):
            one, two = two, one
        self._parent[two] = one
        self._members[one] += self._members.pop(two)
        for other in self._apart.pop(two):
            self._apart[other].discard(two)
            self._apart[other].add(one)
            self._apart[one].add(other)

    def smallest(self) -> dict[str, str]:
        """Return every record with the smallest of its part."""
        first = {root: min(members) for root, members in self._members.items()}
        return {key: first[self.find(key)] for key in sorted(self._parent)}


def _contradiction(
    decided: Sequence[tuple[str, str]], broken: Sequence[tuple[str, str]]
) -> ContradictingDecisionsError:
    left, right = broken[0]
    way = _way(decided, left, right)
    shown = ", ".join(f"'{one}' and '{two}'" for one, two in way)
    pairs = [(left, right, "different"), *((one, two, "same") for one, two in way)]
    others = [(one, two, "different") for one, two in broken[1:]]
    return ContradictingDecisionsError(
        f"the decision that '{left}' and '{right}' are different contradicts {shown}",
        details=DecidedPairs(pairs=tuple([*pairs, *others][:_SHOWN])),
    )


def _way(decided: Sequence[tuple[str, str]], start: str, end: str) -> list[tuple[str, str]]:
    """Return the fewest decisions that lead from one record to another."""
    near: dict[str, list[tuple[str, str]]] = {}
    for pair in decided:
        for key in pair:
            near.setdefault(key, []).append(pair)
    came: dict[str, tuple[str, str] | None] = {start: None}
    waiting = deque([start])
    while waiting and end not in came:
        key = waiting.popleft()
        for pair in near.get(key, ()):
            other = pair[1] if pair[0] == key else pair[0]
            if other not in came:
                came[other] = pair
                waiting.append(other)
    way: list[tuple[str, str]] = []
    key = end
    while (step := came.get(key)) is not None:
        way.append(step)
        key = step[1] if step[0] == key else step[0]
    return way[::-1]
