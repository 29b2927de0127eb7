"""Tags: names for commits. A tag never moves, and keeps the state it names from being reclaimed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from omnigraph.errors import (
    BadValue,
    Effect,
    GoneState,
    HistoryGoneError,
    ManifestCorruptError,
    MissingThing,
    OmnigraphError,
    TagExistsError,
    TagMissingError,
)
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.branches.records import Dependant, Generations, NamedObjects, NamedRecord
from omnigraph.txn.branches.refs import BranchRefs
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.services import GraphStores
from omnigraph.txn.stored_json import StoredCodec
from omnigraph.values import BranchName, CommitId, TagName
from omnigraph.values.damage import WAY_OUT, DamagedRecord
from omnigraph.values.printable import Printable
from omnigraph.values.temporal import format_datetime

TAGS_PREFIX = "__tags"


class Tag(Printable, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named commit: the line that it landed on and the manifest version that it made.

    ``identity`` tells a tag from a later one of the same name, as does ``number``, which is the name of the object and
    not part of it.
    """

    name: TagName
    commit_id: CommitId = msgspec.field(name="commit")
    branch: BranchName
    incarnation: str
    lance_branch: str | None = msgspec.field(name="line")
    manifest_version: int
    created_at_ms: int
    actor: str | None
    message: str | None
    identity: str
    number: int = 0

    @property
    def line(self) -> BranchIncarnation:
        """The line that the commit landed on."""
        return BranchIncarnation(name=self.branch, incarnation=self.incarnation, lance_branch=self.lance_branch)

    @property
    def mark(self) -> Dependant:
        """What says to a deletion of the branch that this tag needs it."""
        return Dependant(kind="tag", name=self.name, identity=self.identity)

    def lines(self) -> Iterator[str]:
        """Yield the tag, its commit and its message, in one line."""
        message = "" if self.message is None else f" {json.dumps(self.message, ensure_ascii=False)}"
        yield f"{self.name} {self.commit_id}{message}"

    def to_json(self) -> dict[str, Any]:
        """Return the tag as every result shows it."""
        return {
            "name": self.name,
            "graph_commit_id": self.commit_id,
            "graph_branch": self.branch,
            "graph_manifest_version": self.manifest_version,
            "created_at": format_datetime(self.created_at_ms),
            "actor_id": self.actor,
            "message": self.message,
        }


TAG = StoredCodec(Tag, subject="tag", expected="a tag", error=ManifestCorruptError, hint=WAY_OUT)


class Tags:
    """The tags of one graph."""

    def __init__(self, stores: GraphStores, refs: BranchRefs) -> None:
        self._stores = stores
        self._refs = refs
        self._objects = NamedObjects(stores.control, TAGS_PREFIX, is_durable=stores.settings.is_durable)

    def list(self) -> tuple[Tag, ...]:
        """Return every tag, by name.

        Raises:
            ManifestCorruptError: one of them cannot be understood.
        """
        return tuple(tag for tag in map(self.find, self.names()) if tag is not None)

    def show(self) -> tuple[Tag | DamagedRecord, ...]:
        """Return every tag, by name; one that cannot be understood is shown as damaged."""
        entries: list[Tag | DamagedRecord] = []
        for name in self.names():
            one = self._objects.find(name)
            if one is None:
                continue
            try:
                entries.append(self._tag(one))
            except ManifestCorruptError as error:
                entries.append(DamagedRecord.of("tag", name, self._objects.key(name, one.number), error))
        return tuple(entries)

    def damaged(self) -> Iterator[tuple[DamagedRecord, NamedRecord]]:
        """Yield the tags that cannot be understood, by name."""
        return self._objects.damaged("tag", self._tag)

    def drop(self, damaged: NamedRecord) -> None:
        """Remove a tag that cannot be understood. Its mark keeps nothing from then on."""
        self._objects.drop(damaged)

    def names(self) -> tuple[str, ...]:
        """Return the names of all tags; reads none of them."""
        return tuple(sorted(_live_names(self._objects.survey())))

    def leftovers(self) -> tuple[str, ...]:
        """Return the keys of what tags that ended have left, and nobody needs."""
        return self._objects.leftovers()

    def find(self, name: str) -> Tag | None:
        """Return a tag, or None."""
        one = self._objects.find(name)
        return None if one is None else self._tag(one)

    def _tag(self, one: NamedRecord) -> Tag:
        tag = TAG.decode(one.data, self._objects.key(one.name, one.number))
        self._objects.refuse_other(one, tag.name)
        return msgspec.structs.replace(tag, number=one.number)

    def get(self, name: TagName) -> Tag:
        """Return a tag.

        Raises:
            TagMissingError: there is none of that name.
        """
        found = self.find(name)
        if found is None:
            near = tuple(sorted(_live_names(self._objects.survey())))
            raise TagMissingError(f"tag '{name}' not found", details=MissingThing(what="tag", name=name, near=near))
        return found

    def create(
        self,
        name: TagName,
        commit: Commit,
        line: BranchIncarnation,
        is_whole: Callable[[], bool],
        actor: str | None,
        message: str | None,
    ) -> Tag:
        """Name a commit.

        Args:
            name: the name.
            commit: the commit.
            line: the line that it landed on.
            is_whole: tells whether cleanup leaves that state alone; asked when the tag is there.
            actor: who asks for it.
            message: why.

        Raises:
            TagExistsError: the name is taken.
            HistoryGoneError: the state of the commit was reclaimed.
            BranchMissingError, BranchClosingError: its branch was deleted, or is about to be.
        """
        lives = self._objects.survey()
        if lives.get(name, Generations()).live is not None:
            raise _exists(name)
        tag = Tag(
            name=name,
            commit_id=commit.id,
            branch=line.name,
            incarnation=line.incarnation,
            lance_branch=line.lance_branch,
            manifest_version=commit.manifest_version,
            created_at_ms=self._stores.runtime.clock.now_ms(),
            actor=actor,
            message=message,
            identity=str(self._stores.runtime.ids.ulid()).lower(),
            number=lives.get(name, Generations()).next_number,
        )
        self._put(tag, is_whole)
        return tag

    def delete(self, name: TagName) -> Tag:
        """Remove a tag and return it; its commit may be reclaimed from here on.

        Raises:
            TagMissingError: there is none of that name.
        """
        tag = self.get(name)
        self._end(tag)
        return tag

    def _put(self, tag: Tag, is_whole: Callable[[], bool]) -> None:
        """Write the tag, then look whether its state is there: whoever removes states looks the other way round."""
        self._refs.marks.add(tag.line, tag.mark)
        if not self._objects.create(tag.name, tag.number, TAG.encode(msgspec.structs.replace(tag, number=0))):
            self._refs.marks.remove(tag.line, tag.mark)
            raise _exists(tag.name)
        self._stores.runtime.failpoints.hit("txn.tag.after_put")
        try:
            self._refs.check_open(tag.line)
            if not is_whole():
                raise _reclaimed(tag)
            if self._objects.survey().get(tag.name, Generations()).live != tag.number:
                raise _exists(tag.name)
        except OmnigraphError as error:
            error.effect = Effect.UNKNOWN
            self._end(tag)
            error.effect = Effect.NONE
            raise

    def _end(self, tag: Tag) -> None:
        self._objects.end(tag.name, tag.number)
        self._refs.marks.remove(tag.line, tag.mark)
        self._objects.sweep(tag.name, tag.number)


def _reclaimed(tag: Tag) -> HistoryGoneError:
    details = GoneState(commit_id=tag.commit_id, branch=tag.line.name)
    return HistoryGoneError(f"the state of commit '{tag.commit_id}' was reclaimed", details=details)


def _live_names(lives: Mapping[str, Generations]) -> set[str]:
    return {name for name, life in lives.items() if life.live is not None}


def _exists(name: TagName) -> TagExistsError:
    details = BadValue(what="tag", value=name, expected="a name that is not taken")
    return TagExistsError(f"tag '{name}' already exists", details=details)
