"""Branch refs: which branches exist, and which line of the manifest each of them is.

A ref is one small object, created with put-if-absent: of two racing creators one wins. Deleting it is what ends a
branch. The line it names is unique to the incarnation, so nothing that belongs to a deleted branch can be reached
through a later branch of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from omnigraph.errors import (
    BadValue,
    BranchExistsError,
    BranchMissingError,
    FormatMismatch,
    ManifestCorruptError,
    MissingThing,
)
from omnigraph.runtime import Counters
from omnigraph.txn.jsontext import encode_json
from omnigraph.txn.manifest.file import LOCATION, BranchLine, LoadedManifest
from omnigraph.txn.services import GraphStores
from omnigraph.values import MAIN, BranchName, CommitId, Ulid

REFS_PREFIX = "__branches"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRef:
    """A live branch and where it came from."""

    line: BranchLine
    parent: BranchName
    forked_at: CommitId
    forked_version: int
    created_at_ms: int
    actor: str | None


class BranchRefs:
    """The refs of one graph."""

    def __init__(self, stores: GraphStores) -> None:
        self._control = stores.control
        self._datasets = stores.datasets
        self._syncing = stores.syncing
        self._world = stores.world
        self._is_durable = stores.settings.is_durable

    def get(self, name: BranchName, counters: Counters) -> BranchRef:
        """Return the ref of a live branch other than main.

        Raises:
            BranchMissingError: there is none.
        """
        key = _key(name)
        data = self._control.get(key, counters)
        if data is None:
            near = tuple(self.names(counters))
            details = MissingThing(what="branch", name=name, near=near)
            raise BranchMissingError(f"branch does not exist branch={name!r}", details=details)
        return _decode(key, data)

    def names(self, counters: Counters) -> list[BranchName]:
        """Return the live branches, main first, then by name."""
        keys = self._control.list_keys(REFS_PREFIX, counters)
        found = sorted(key.rpartition("/")[2].removesuffix(".json").replace(",", "/") for key in keys)
        return [BranchName(MAIN), *(BranchName(name) for name in found)]

    def create(
        self,
        name: BranchName,
        source: BranchLine,
        base: LoadedManifest,
        actor: str | None,
        counters: Counters,
    ) -> BranchRef:
        """Create a branch at ``base`` of ``source``: a constant number of calls, whatever the number of tables.

        A crash before the ref exists leaves a line that nobody can find; cleanup collects it.

        Raises:
            BranchExistsError: the name, or one that overlaps with it, is taken.
        """
        for taken in self.names(counters):
            if name.overlaps(taken):
                raise _exists(name, taken)
        incarnation = str(self._world.ids.ulid()).lower()
        ref = BranchRef(
            line=BranchLine(name=name, incarnation=incarnation, line=f"{name}.{incarnation}"),
            parent=source.name,
            forked_at=base.state.head.commit,
            forked_version=base.state.version,
            created_at_ms=self._world.clock.now_ms(),
            actor=actor,
        )
        line = ref.line.line or ""
        version = self._datasets.create_branch(LOCATION, source.line, base.state.version, line, counters)
        self._syncing.line(LOCATION, line, version)
        self._world.failpoints.hit("txn.branch.after_line")
        data = _encode(ref)
        if not self._control.put_if_absent(_key(name), data, counters, sync=self._is_durable):
            # The answer to a put that landed may have been lost and the put repeated.
            if self._control.get(_key(name), counters) == data:
                return ref
            self._datasets.delete_branch_files(LOCATION, line, counters)
            raise _exists(name, name)
        return ref


def _key(name: BranchName) -> str:
    # A comma cannot occur in a name, so the mapping is one to one and keys stay in one folder.
    return f"{REFS_PREFIX}/{name.replace('/', ',')}.json"


def _encode(ref: BranchRef) -> bytes:
    return encode_json(
        {
            "name": ref.line.name,
            "incarnation": ref.line.incarnation,
            "line": ref.line.line,
            "parent": ref.parent,
            "forked_at": ref.forked_at,
            "forked_version": ref.forked_version,
            "created_at_ms": ref.created_at_ms,
            "actor": ref.actor,
        }
    )


def _decode(key: str, data: bytes) -> BranchRef:
    try:
        raw: dict[str, Any] = msgspec.json.decode(data)
        return BranchRef(
            line=BranchLine(name=BranchName(raw["name"]), incarnation=raw["incarnation"], line=raw["line"]),
            parent=BranchName(raw["parent"]),
            forked_at=CommitId(Ulid.parse(raw["forked_at"])),
            forked_version=raw["forked_version"],
            created_at_ms=raw["created_at_ms"],
            actor=raw["actor"],
        )
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        details = FormatMismatch(what=key, expected="a branch ref", found=str(error)[:200])
        raise ManifestCorruptError(f"a branch ref cannot be read key={key}", details=details) from error


def _exists(name: BranchName, taken: BranchName) -> BranchExistsError:
    details = BadValue(what="branch", value=name, expected=f"a name that does not overlap with {taken!r}")
    return BranchExistsError(f"branch '{taken}' already exists", details=details)
