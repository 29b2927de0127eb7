"""How far the change logs of a branch have come: the runs that hold the sequences each of them has applied.

What a run says is only ever raised by another one, so the runs of two branches are joined by having all of them. Which
runs hold is part of the state of a branch; each commit says what it brought, so that a revert can leave that out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from omnigraph.values import CommitId


class SequenceRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of sequences: its name, and how many entities it tells of."""

    name: str
    rows: int


class StreamSequences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is remembered of one stream of change logs.

    ``runs`` hold the sequences. ``kinds`` is, by the identity of a table, what kind they are of: numbers and instants
    cannot be compared.
    """

    stream: str
    runs: tuple[SequenceRun, ...] = ()
    kinds: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The names of its runs."""
        return frozenset(run.name for run in self.runs)


class SequenceMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a commit does to the memory of one stream.

    ``own`` are the runs with what the commit itself adds; they stay as long as the commit can be reverted. ``puts`` are
    others that hold from here on, made of several or brought back; ``drops`` are the names of those that hold no more.
    """

    stream: str
    own: tuple[SequenceRun, ...] = ()
    puts: tuple[SequenceRun, ...] = ()
    drops: tuple[str, ...] = ()
    kinds: dict[str, int] = msgspec.field(default_factory=dict)

    def after(self, before: StreamSequences | None) -> StreamSequences:
        """Return what is remembered behind the commit."""
        known = before or StreamSequences(stream=self.stream)
        runs = {run.name: run for run in (*known.runs, *self.own, *self.puts)}
        left = tuple(run for name, run in runs.items() if name not in self.drops)
        # What is known of a table stays as long as anything is: a merge cannot bring another kind.
        return StreamSequences(stream=self.stream, runs=left, kinds={**self.kinds, **known.kinds} if left else {})


def joined(ours: Mapping[str, StreamSequences], theirs: Mapping[str, StreamSequences]) -> Iterator[SequenceMark]:
    """Yield what a merge adds to the memory of its target, by stream: the runs of the source that it has not."""
    for stream, other in theirs.items():
        known = ours.get(stream)
        names = frozenset[str]() if known is None else known.names
        runs = tuple(run for run in other.runs if run.name not in names)
        if runs:
            yield SequenceMark(stream=stream, own=runs, kinds=other.kinds)


def reverted(
    current: Mapping[str, StreamSequences], kept: Iterable[SequenceMark], before: Mapping[str, StreamSequences]
) -> Iterator[SequenceMark]:
    """Yield what a revert does to the memory: the runs of the state before what is undone, and those added since.

    Args:
        current: what is remembered now.
        kept: what the commits added that came since and stay, in any order.
        before: what was remembered before the first commit that is undone.
    """
    since: dict[str, list[SequenceRun]] = {}
    for mark in kept:
        since.setdefault(mark.stream, []).extend(mark.own)
    for stream, now in current.items():
        earlier = before.get(stream)
        runs = {run.name: run for run in (*(() if earlier is None else earlier.runs), *since.get(stream, ()))}
        puts = tuple(run for name, run in runs.items() if name not in now.names)
        drops = tuple(run.name for run in now.runs if run.name not in runs)
        if puts or drops:
            yield SequenceMark(stream=stream, puts=puts, drops=drops)


class UndoneCommits:
    """Tells, going back from the newest commit, which commits do not count any more because others undid them."""

    def __init__(self, undone: CommitId) -> None:
        self._undone = {undone}

    def counts(self, commit: CommitId, reverts: CommitId | None) -> bool:
        """Take the next older commit; whether it still counts. The revert of a commit that is undone does not."""
        if commit in self._undone:
            self._undone.discard(commit)
            return False
        if reverts is not None:
            self._undone.add(reverts)
        return True

    @property
    def is_over(self) -> bool:
        """Whether everything that was undone has been passed."""
        return not self._undone
