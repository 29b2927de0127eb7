"""Branches that killed runs have left, and how the next run tells them from those that people want to look at.

A run that works on a branch of its own notes that first, with the process it runs in, and takes the note back when the
branch is gone, or is left for people. So a branch without a note belongs to people, whatever it is called, and is never
touched. One with a note goes when its process is surely dead: on this machine, or before it was started anew. Of a
process on another machine nobody knows, and its note counts for a week.

Being wrong about it costs a run its branch, so that it fails; what was published is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

import msgspec

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BranchClosingError, BranchMissingError
from omnigraph.history.proposals import list_proposals
from omnigraph.history.runs import pipeline_runs
from omnigraph.operations.history import DeleteBranchRequest
from omnigraph.operations.local import LocalBackend
from omnigraph.store.control import ControlObjects
from omnigraph.store.tables.portable import stores_of
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.values import BranchName

NOTES_FOLDER = "__pipelines"
_LONGEST_SILENCE_MS = 7 * 24 * 3600 * 1000
_PROPOSALS_PER_PAGE = 50


class RunNote(msgspec.Struct, frozen=True, kw_only=True):
    """A run that works on a branch of its own: where it will be merged, who runs it, and where its rejected rows are.

    ``quarantine`` is the folder that the run was asked to keep them in; None is that of the declaration.
    """

    format: Literal[1] = 1
    pipeline: str
    run: str
    branch: str
    target: str
    writer: WriterIdentity
    at_ms: int
    quarantine: str | None = None

    @property
    def key(self) -> str:
        """Where the note is kept."""
        return f"{NOTES_FOLDER}/{self.pipeline}/{self.run}.json"

    def put(self, engine: OpenGraph) -> None:
        """Write the note; the branch is made afterwards."""
        _control(engine).put(self.key, msgspec.json.encode(self))

    def forget(self, engine: OpenGraph) -> None:
        """Take the note back: the branch is gone, or belongs to people from here on."""
        _control(engine).delete(self.key)


def remove_leftovers(engine: OpenGraph, pipeline: str, *, actor: str | None = None) -> Iterator[RunNote]:
    """Remove the branches of runs of a pipeline that were killed, and yield those of them that published nothing."""
    for note in _notes(engine, pipeline):
        if not _is_dead(engine, note):
            continue
        if _is_of_people(engine, note):
            note.forget(engine)
            continue
        # Another run may remove the same one, or have to finish what the dead one began.
        with suppress(BranchMissingError, BranchClosingError):
            LocalBackend(engine, "read_write").execute(DeleteBranchRequest(name=note.branch, actor=actor))
        if not _is_published(engine, note):
            yield note
        note.forget(engine)


def _notes(engine: OpenGraph, pipeline: str) -> Iterator[RunNote]:
    control = _control(engine)
    for key in control.list_keys(f"{NOTES_FOLDER}/{pipeline}"):
        data = control.get(key)
        # A note that cannot be understood is from another version: its run is none of ours.
        with suppress(msgspec.DecodeError):
            if data is not None:
                yield msgspec.json.decode(data, type=RunNote)


def _is_dead(engine: OpenGraph, note: RunNote) -> bool:
    if note.writer.is_surely_dead(is_disk_local=engine.store.storage.is_local):
        return True
    if note.writer.is_of_this_host():
        return False
    return engine.runtime.clock.now_ms() - note.at_ms > _LONGEST_SILENCE_MS


def _is_of_people(engine: OpenGraph, note: RunNote) -> bool:
    """Whether somebody has taken the branch over: by a commit of their own, or by a proposal, whatever became of it."""
    try:
        snapshot = engine.store.snapshot(BranchName.parse(note.branch))
    except BranchMissingError:
        return False
    for commit, is_brought in engine.store.refs.iter_all_commits(snapshot):
        if commit.branch != note.branch:
            break
        is_own = commit.run is not None and commit.run.run == note.run
        # What follows a load says in its message which run it belongs to.
        if not is_brought and not is_own and note.run not in (commit.message or ""):
            return True
    return _is_proposed(engine, note.branch)


def _is_proposed(engine: OpenGraph, branch: str) -> bool:
    after: int | None = None
    while True:
        page = list_proposals(engine, "all", _PROPOSALS_PER_PAGE, after)
        if any(proposal.source.branch == branch for proposal in page.proposals):
            return True
        if page.following is None:
            return False
        after = page.following


def _is_published(engine: OpenGraph, note: RunNote) -> bool:
    """Whether the run was merged before it died."""
    try:
        snapshot = engine.store.snapshot(BranchName.parse(note.target))
    except BranchMissingError:
        return False
    return any(found.mark.run == note.run for found in pipeline_runs(engine.store, snapshot, note.pipeline))


def _control(engine: OpenGraph) -> ControlObjects:
    return stores_of(engine.store.storage).control
