"""Migration: bringing every branch of a graph to the newest storage format, when its operator decides so.

Opening a graph never does: as long as nobody migrates, versions of omnigraph that only know the older format go on
working beside this one. Main comes first, since it is what every version looks at when it opens a graph. Each branch
has a publish of its own, so that a migration that was interrupted goes on where it ended. Tags name states that are
past, which keep the format that they were written in, and are read by the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from omnigraph.errors import BranchMissingError, HistoryGoneError, TagMissingError
from omnigraph.records import record
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.migration import raise_format
from omnigraph.values import MAIN, BranchName, checked_text
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

LineAction = Literal["preview", "migrated", "current", "kept"]


@record
class MigratedLine:
    """A branch or a tag, and what became of its format.

    ``format`` is what it had, ``target`` what it has or would have. ``commit_id`` is the commit that raised it: None
    where nothing was done, or another migration was faster.
    """

    kind: Literal["branch", "tag"]
    name: str
    format: int
    target: int
    action: LineAction
    commit_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the line as every result shows it."""
        return {
            "kind": self.kind,
            "name": self.name,
            "internal_schema_version": self.format,
            "target_schema_version": self.target,
            "action": self.action,
            "graph_commit_id": self.commit_id,
        }

    def __str__(self) -> str:
        what = f"{self.kind} {self.name}"
        match self.action:
            case "preview":
                return f"{what}: format {self.format} would become {self.target}"
            case "migrated":
                return f"{what}: format {self.format} became {self.target}"
            case "kept":
                return f"{what}: stays in format {self.format}"
            case _:
                return f"{what}: has format {self.format}"


@record
class MigrateResult(Printable):
    """What a migration did, or would do. ``target`` is the newest format that this version supports."""

    target: int
    found: tuple[MigratedLine, ...]

    @property
    def migrated(self) -> tuple[str, ...]:
        """The branches whose format was raised."""
        return tuple(line.name for line in self.found if line.action == "migrated")

    @property
    def outdated(self) -> tuple[str, ...]:
        """The branches whose format a migration would raise."""
        return tuple(line.name for line in self.found if line.action == "preview")

    def to_json(self) -> dict[str, Any]:
        """Return the result as every face of it shows it."""
        return {"target_schema_version": self.target, "lines": [line.to_json() for line in self.found]}

    def lines(self) -> Iterator[str]:
        """Yield what became of every branch and tag, and what that means for other versions of omnigraph."""
        yield from map(str, self.found)
        branches = counted(len(self.migrated or self.outdated), "branch", "branches")
        if self.migrated:
            yield f"{branches} migrated; versions of omnigraph without storage format {self.target} refuse the graph"
        elif self.outdated:
            yield f"{branches} to migrate; afterwards, versions without storage format {self.target} refuse the graph"
        else:
            yield f"nothing to do: every branch has storage format {self.target}"


class Migration:
    """Brings the branches of one graph to the newest format.

    Args:
        store: the graph.
        actor: on whose behalf.
        message: what its commits say; the format that they bring if left out.
    """

    def __init__(self, store: GraphStore, *, actor: str | None = None, message: str | None = None) -> None:
        self._store = store
        self._formats = store.formats
        self._actor = checked_text("actor", actor)
        self._message = checked_text("message", message)

    def preview(self) -> MigrateResult:
        """Say what would change; writes nothing."""
        return self._result({})

    def run(self) -> MigrateResult:
        """Migrate every branch that has an older format, those that are made meanwhile too.

        Raises:
            ClaimBusyError: writers kept a branch busy for too long; run it again for what is left.
            ReadOnlyError: the graph is open for reading only.
        """
        self._store.refuse_reading()
        done: dict[str, MigratedLine] = {}
        while True:
            raised = [line for line in self._migrate_all() if line.action == "migrated"]
            done |= {line.name: line for line in raised}
            if not raised:
                return self._result(done)

    def _migrate_all(self) -> Iterator[MigratedLine]:
        for name in self._store.branch_names():
            with suppress(BranchMissingError):
                yield self._migrate(name)

    def _migrate(self, name: BranchName) -> MigratedLine:
        line = self._look(name)
        if line.action == "current":
            return line
        branch_writer = self._store.current(name)[0]
        _, commit = raise_format(
            branch_writer.services,
            branch_writer.recover_claim,
            self._formats,
            actor=self._actor,
            message=self._message,
        )
        if commit is None:
            return replace(line, action="current", format=line.target)
        self._store.stores.runtime.failpoints.hit("engine.migrate.after_line")
        return replace(line, action="migrated", commit_id=str(commit.id))

    def _look(self, name: BranchName) -> MigratedLine:
        found = self._store.snapshot(name).state.format
        action: LineAction = "preview" if self._formats.is_outdated(found) else "current"
        return MigratedLine(kind="branch", name=name, format=found, target=self._formats.newest, action=action)

    def _result(self, done: dict[str, MigratedLine]) -> MigrateResult:
        lines: list[MigratedLine] = []
        for name in self._store.branch_names():
            with suppress(BranchMissingError):
                lines.append(done.get(name) or self._look(name))
        return MigrateResult(target=self._formats.newest, found=(*lines, *self._tags()))

    def _tags(self) -> Iterator[MigratedLine]:
        for tag in self._store.tags.list():
            # One that is removed meanwhile, or whose state cannot be read, has no format to tell.
            with suppress(TagMissingError, BranchMissingError, HistoryGoneError):
                found = self._store.refs.resolve_ref(f"tag:{tag.name}", BranchName(MAIN)).snapshot.state.format
                action: LineAction = "kept" if self._formats.is_outdated(found) else "current"
                yield MigratedLine(kind="tag", name=tag.name, format=found, target=found, action=action)
