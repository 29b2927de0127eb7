"""Telling what nothing needs any more from what something needs, or may be about to need."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from omnigraph.records import record
from omnigraph.store.control import StoredObject
from omnigraph.store.inventory import FileKind, Inventory, StoredFile, StoredLine
from omnigraph.store.references import References

Place = tuple[str, str | None]

_HINT = "latest_version_hint.json"
_NOTHING = References()


@record
class Needs:
    """What must stay.

    Args:
        versions: the versions that stay, by dataset and line.
        newest: the newest published version of each line that a live branch writes to; whatever is past it may be
            in the window of a writer.
        references: the files that those versions need, by dataset.
        known_dead: the files that only versions that go have named, by dataset; they need not be old to go.
        dropped: datasets of dropped types that no state holds any more.
    """

    versions: Mapping[Place, Collection[int]]
    newest: Mapping[Place, int]
    references: Mapping[str, References]
    known_dead: Mapping[str, References] = field(default_factory=dict)
    dropped: Collection[str] = ()


@record
class Ages:
    """Moments by the clock of the store.

    ``unnamed_ms``: a file that nothing has ever named may belong to a write that is under way unless it is older.
    ``fence_ms``: an older version of the manifest cannot be what a stalled writer is about to make.
    """

    unnamed_ms: int
    fence_ms: int


@dataclass(slots=True, kw_only=True)
class Garbage:
    """What may be removed of one dataset: its versions first, so that none of them names files that are gone."""

    location: str
    versions: list[StoredObject] = field(default_factory=list)
    files: list[StoredObject] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """How much storage it takes."""
        return sum(item.size for item in (*self.versions, *self.files))

    def __bool__(self) -> bool:
        return bool(self.versions or self.files)


def find_garbage(inventory: Inventory, needs: Needs, ages: Ages, manifest: str) -> dict[str, Garbage]:
    """Return what may go, by dataset; datasets without garbage are left out."""
    found: dict[str, Garbage] = {}
    for (location, branch), line in inventory.lines.items():
        garbage = found.setdefault(location, Garbage(location=location))
        if needs.versions.get((location, branch)):
            _sort_live(line, needs, ages, garbage, is_manifest=location == manifest)
        elif location in needs.dropped or line.newest_ms < ages.unnamed_ms:
            _sort_dead(line, needs, garbage, inventory)
    return {location: garbage for location, garbage in found.items() if garbage}


def _sort_live(line: StoredLine, needs: Needs, ages: Ages, garbage: Garbage, *, is_manifest: bool) -> None:
    place = line.location, line.branch
    kept, top = needs.versions[place], needs.newest.get(place, max(needs.versions[place]))
    for file in line.files:
        is_old = file.object.modified_ms < ages.unnamed_ms
        if file.kind is FileKind.VERSION or (file.kind is FileKind.RECORD and file.version is not None):
            is_over = file.version is not None and file.version < top and file.version not in kept
            # While the number is taken, no writer that is late can take it for free.
            if is_over and (not is_manifest or file.object.modified_ms < ages.fence_ms):
                (garbage.versions if file.kind is FileKind.VERSION else garbage.files).append(file.object)
        elif file.kind is FileKind.OTHER or file.kind is FileKind.RECORD:
            if is_old and file.name != _HINT:
                garbage.files.append(file.object)
        elif not _is_named(file, needs.references.get(line.location, _NOTHING)) and (
            is_old or _is_named(file, needs.known_dead.get(line.location, _NOTHING))
        ):
            garbage.files.append(file.object)


def _sort_dead(line: StoredLine, needs: Needs, garbage: Garbage, inventory: Inventory) -> None:
    """A line that no state places anything on: all of it goes but files that another line lists."""
    references = needs.references.get(line.location, _NOTHING)
    for file in line.files:
        if file.kind is FileKind.VERSION:
            garbage.versions.append(file.object)
        elif not _is_named(file, references):
            garbage.files.append(file.object)
    ref = None if line.branch is None else inventory.refs.get((line.location, line.branch))
    if ref is not None:
        garbage.files.append(ref)


def _is_named(file: StoredFile, references: References) -> bool:
    match file.kind:
        case FileKind.DATA:
            return file.name in references.data
        case FileKind.DELETIONS:
            return file.name in references.deletions
        case FileKind.INDEX:
            return file.name in references.indexes
        case _:
            return False
