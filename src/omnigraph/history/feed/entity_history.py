"""What blame answers: the changes of one entity, and the author of each of its properties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.history.diff.change import ChangeOp, EntityImage
from omnigraph.history.feed.blocks import Cause
from omnigraph.records import record
from omnigraph.txn.manifest.merged import is_merge
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable
from omnigraph.values.temporal import format_datetime
from omnigraph.values.visible import make_visible


@record
class PropertyAuthor:
    """Who wrote a property.

    ``author`` is the commit whose value it is, None when the states that would tell are gone. ``merge`` is the merge by
    which it came to the branch, None when the author committed there. ``files`` are those that the entity came from,
    if a run of a pipeline wrote it and has kept them.
    """

    name: str
    author: Commit | None
    merge: Commit | None = None
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        shown: dict[str, Any] = {
            "property": self.name,
            "author": None if self.author is None else self.author.to_json(),
        }
        if self.files:
            shown["files"] = list(self.files)
        return shown if self.merge is None else {**shown, "merge": self.merge.to_json()}

    def __str__(self) -> str:
        unknown = "author not among the listed changes" if self.merge is None else "author unknown"
        author = unknown if self.author is None else _signature(self.author, self.files)
        merged = "" if self.merge is None else f" merged by {_signature(self.merge)}"
        return make_visible(f"{self.name}: {author}{merged}")


def _signature(commit: Commit, files: tuple[str, ...] = ()) -> str:
    actor = "" if commit.actor is None else f" actor={commit.actor}"
    message = "" if commit.message is None else f" '{commit.message}'"
    run = "" if commit.run is None else f" {commit.run.described(files)}"
    return f"{commit.id} {format_datetime(commit.created_at_ms)}{actor}{message}{run}"


@record
class EntityEvent:
    """A commit that changed the entity, and how; ``authors`` tells who wrote each of the changed properties.

    ``files`` are those that it came from, if a run of a pipeline did that and has kept them.
    """

    cause: Cause
    op: ChangeOp
    changed: tuple[str, ...]
    before: EntityImage | None
    after: EntityImage | None
    authors: tuple[PropertyAuthor, ...] = ()
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        commit = self.cause.commit
        actor = "" if commit.actor is None else f" actor={commit.actor}"
        published = format_datetime(commit.published_at_ms)
        run = "" if commit.run is None else make_visible(f" {commit.run.described(self.files)}")
        return f"{commit.id} {published} {self.op}{actor}{run} changed={','.join(self.changed)}"

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON values."""
        images = {
            name: image.to_json()
            for name, image in (("before", self.before), ("after", self.after))
            if image is not None
        }
        authors = {"authors": [author.to_json() for author in self.authors]} if is_merge(self.cause.commit) else {}
        files = {"files": list(self.files)} if self.files else {}
        return {
            "cause": self.cause.to_json(),
            "op": self.op,
            "changed": list(self.changed),
            **images,
            **authors,
            **files,
        }


@record
class EntityHistory(Printable):
    """What happened to an entity, newest first; ``is_complete`` when nothing older was left out.

    ``properties`` tells who wrote each value that the entity has; it is empty when the entity was deleted. Properties
    whose author is older than everything that is shown have none. ``known_since`` is the oldest commit whose state can
    be read when cleanup has removed those before it, else None.
    """

    table_key: str
    id: str
    events: tuple[EntityEvent, ...]
    is_complete: bool
    properties: tuple[PropertyAuthor, ...] = ()
    known_since: Commit | None = None

    def lines(self) -> Iterator[str]:
        """Yield who wrote each property, and which commits changed what, newest first."""
        missing = self.missing()
        more = "" if missing is None else f"; {missing}"
        yield f"{self.table_key} {self.id}: {counted(len(self.events), 'change')}{more}"
        yield from map(str, self.properties)
        yield from map(str, self.events)

    def to_json(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        kind, _, name = self.table_key.partition(":")
        since = {} if self.known_since is None else {"known_since": self.known_since.to_json()}
        return {
            "kind": kind,
            "type_name": name,
            "id": self.id,
            "properties": [author.to_json() for author in self.properties],
            "events": [event.to_json() for event in self.events],
            "is_complete": self.is_complete,
            **since,
        }

    def missing(self, limit: str = "limit") -> str | None:
        """Return what is left out and why, as a sentence, None when nothing is; ``limit`` is how to ask for more."""
        if self.known_since is not None:
            since = f"{self.known_since.id} of {format_datetime(self.known_since.published_at_ms)}"
            return f"changes before commit {since} are unknown: cleanup has removed the states"
        return None if self.is_complete else f"older changes are not shown; use a larger {limit}"
