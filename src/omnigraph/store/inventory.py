"""What lies below a graph's root, sorted by the dataset and the line of it that each object belongs to.

Whatever does not look like something that omnigraph or Lance writes is not listed, and so is never touched.

Files are known by their names alone: each holds a random number, and a branch lists files of the line that it came
from under the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from omnigraph.records import record
from omnigraph.store.control import StoredObject
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.handles import metered
from omnigraph.store.tables.pins import FIRST_DETACHED, TablePin, data_paths
from omnigraph.store.translate import translating

_MAX_VERSION = (1 << 64) - 1
_VERSION_FILE = re.compile(r"(?P<number>[0-9]{20})\.manifest")
_RECORD_FILE = re.compile(r"(?P<read>[0-9]+)-[0-9a-f-]+\.txn")
_FOLDERS = ("nodes", "edges")
_REFS = ("_refs", "branches")


class FileKind(StrEnum):
    """What an object of a dataset is."""

    VERSION = "version"
    DATA = "data"
    DELETIONS = "deletions"
    INDEX = "index"
    RECORD = "record"
    OTHER = "other"


@record
class StoredFile:
    """An object of one line of a dataset.

    ``name`` is what versions call it: the data file that a side file belongs to, the uuid of an index. ``version`` is
    the version that a version file is, or that a record of a transaction was meant for.
    """

    object: StoredObject
    kind: FileKind
    name: str
    version: int | None = None


@record(frozen=False)
class StoredLine:
    """The objects of one Lance branch of a dataset; ``branch`` None is its main line."""

    location: str
    branch: str | None
    files: list[StoredFile] = field(default_factory=list)

    @property
    def versions(self) -> dict[int, StoredFile]:
        """The versions that exist, by number."""
        return {file.version: file for file in self.files if file.kind is FileKind.VERSION and file.version is not None}

    @property
    def newest_ms(self) -> int:
        """When the youngest object was written."""
        return max((file.object.modified_ms for file in self.files), default=0)


class Inventory:
    """The objects of a graph at one moment."""

    def __init__(self, objects: Iterable[StoredObject], manifest: str) -> None:
        self.lines: dict[tuple[str, str | None], StoredLine] = {}
        # Native refs of datasets, by dataset and branch.
        self.refs: dict[tuple[str, str], StoredObject] = {}
        self.others: list[StoredObject] = []
        for item in objects:
            parts = item.key.split("/")
            depth = 1 if parts[0] == manifest else 2 if parts[0] in _FOLDERS else 0
            if depth and len(parts) > depth:
                self._add("/".join(parts[:depth]), parts[depth:], item)
            else:
                self.others.append(item)

    def below(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects below a folder that are part of no dataset."""
        return (item for item in self.others if item.key.startswith(f"{prefix}/"))

    def _add(self, location: str, rest: list[str], item: StoredObject) -> None:
        if tuple(rest[:2]) == _REFS and rest[-1].endswith(".json"):
            name = unquote("/".join(rest[2:]).removesuffix(".json"))
            self.refs[location, name] = item
            return
        branch, inner = _split(rest)
        file = _classify(inner, item)
        if file is not None:
            line = self.lines.setdefault((location, branch), StoredLine(location=location, branch=branch))
            line.files.append(file)


def _split(rest: list[str]) -> tuple[str | None, list[str]]:
    """Tell the branch from the path inside its tree. The names of branches may hold slashes and common words."""
    if rest[0] != "tree":
        return None, rest
    # A tree is two folders deep at most, and the last part of a branch's name ends in an identity.
    start = len(rest) - 2
    if rest[start] not in {"data", "_versions", "_deletions", "_transactions"}:
        start -= 1
    return "/".join(rest[1:start]), rest[start:]


def _classify(inner: list[str], item: StoredObject) -> StoredFile | None:
    match inner:
        case ["_versions", name]:
            found = _VERSION_FILE.fullmatch(name)
            if found is None:
                return StoredFile(object=item, kind=FileKind.OTHER, name=name)
            # Lance names versions so that the newest sorts first.
            return StoredFile(
                object=item, kind=FileKind.VERSION, name=name, version=_MAX_VERSION - int(found["number"])
            )
        case ["data", name, *_] if len(inner) <= 3:
            return StoredFile(object=item, kind=FileKind.DATA, name=name.removesuffix(".lance"))
        case ["_deletions", name]:
            return StoredFile(object=item, kind=FileKind.DELETIONS, name=name.partition(".")[0])
        case ["_indices", name, *_]:
            return StoredFile(object=item, kind=FileKind.INDEX, name=name)
        case ["_transactions", name]:
            found = _RECORD_FILE.fullmatch(name)
            version = None if found is None else int(found["read"]) + 1
            # What was built on a detached version belongs to no number of the line.
            version = version if version is None or version <= FIRST_DETACHED else None
            return StoredFile(object=item, kind=FileKind.RECORD, name=name, version=version)
        case _:
            return None


@record
class References:
    """The names of the files that something needs: data files, deletion files, and the identities of indexes."""

    data: frozenset[str] = frozenset()
    deletions: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()

    @classmethod
    def union(cls, many: Sequence[References]) -> References:
        """Return what several need together."""
        return cls(
            data=frozenset().union(*(one.data for one in many)),
            deletions=frozenset().union(*(one.deletions for one in many)),
            indexes=frozenset().union(*(one.indexes for one in many)),
        )


def references_of(datasets: DatasetStore, pin: TablePin) -> References:
    """Return what one version needs; reads its description and nothing else.

    Raises:
        TableMissingError, VersionMissingError: there is no such version.
    """
    handle = datasets.handles.open_apart(pin)
    with translating("read what a version needs", pin.location, handle=handle), metered(handle):
        fragments = [fragment.metadata for fragment in handle.get_fragments()]
        segments = [segment.uuid for index in handle.describe_indices() for segment in index.segments]
    data, deletions = set[str](), set[str]()
    for fragment in fragments:
        # A data file and the folder of its larger blobs share their name.
        data.update(path.rpartition("/")[2].removesuffix(".lance") for path in data_paths(fragment))
        deleted: dict[str, Any] | None = fragment.to_json().get("deletion_file")
        if deleted:
            deletions.add(f"{fragment.id}-{deleted['read_version']}-{deleted['id']}")
    return References(data=frozenset(data), deletions=frozenset(deletions), indexes=frozenset(segments))
