"""Whether a version still is the newest of its dataset, told by two looks at the folder of versions.

Listing that folder through Lance is a small part of a long read and a large part of a short one. A file system that
only this machine writes to notes in a folder when a file in it was made, renamed or removed, so a folder that has not
changed has the versions that it had. Three things make that safe:

- Only file systems are trusted that belong to one machine. On a network another client may not see the note for a
  while.
- A folder that changed within the last second is not trusted: the note is as fine as the tick of a clock, and a second
  change within the tick would leave it as it is.
- The file of the next version must not be there, whatever the folder says.

Wherever one of them does not hold, Lance is asked as before.
"""

from __future__ import annotations

import os
from pathlib import Path

from omnigraph.records import record
from omnigraph.runtime import SystemClock
from omnigraph.store.location import Storage
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.versions import version_file

# File systems that one machine mounts and that note every change of a folder in it.
_OWN_FILE_SYSTEMS = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
_MOUNTS = Path("/proc/self/mountinfo")
_SETTLED_MS = 1_000
_NS_PER_MS = 1_000_000

Line = tuple[str, str | None]
# Which folder it is, and when it was last changed.
Mark = tuple[int, int, int, int]


@record
class _Seen:
    """A version that was the newest when its folder had this mark."""

    version: int
    folder: str
    next_file: str
    mark: Mark


class NewestVersions:
    """What was seen to be the newest version of datasets, by location and branch. Threads may share it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._clock = SystemClock()
        self._seen: dict[Line, _Seen] = {}
        self._folders: dict[Line, str] = {}
        # Whether folders of a device can be trusted.
        self._trusted: dict[int, bool] = {}

    def still(self, location: str, branch: str | None) -> int | None:
        """Return the newest version if it is the one that was seen last; None when only storage can tell."""
        seen = self._seen.get((location, branch))
        if seen is None or _mark(seen.folder) != seen.mark or os.access(seen.next_file, os.F_OK):
            return None
        return seen.version

    def mark(self, location: str, branch: str | None) -> Mark | None:
        """Return what the folder of versions says before storage is asked; None when it is not to be trusted."""
        if not self._storage.is_local:
            return None
        folder = self._folders.get((location, branch))
        if folder is None:
            folder = self._folders[location, branch] = os.path.dirname(self._file(location, branch, 0))
        mark = _mark(folder)
        return mark if mark is not None and self._is_settled(mark) and self._is_own(mark[0]) else None

    def saw(self, location: str, branch: str | None, version: int, mark: Mark | None) -> None:
        """Remember which version storage called the newest after its folder had a mark."""
        if mark is None:
            self._seen.pop((location, branch), None)
            return
        following = self._file(location, branch, version + 1)
        self._seen[location, branch] = _Seen(
            version=version, folder=os.path.dirname(following), next_file=following, mark=mark
        )

    def _file(self, location: str, branch: str | None, version: int) -> str:
        return self._storage.path_text(version_file(TablePin(location=location, branch=branch, version=version)))

    def _is_settled(self, mark: Mark) -> bool:
        return max(mark[2], mark[3]) // _NS_PER_MS + _SETTLED_MS < self._clock.now_ms()

    def _is_own(self, device: int) -> bool:
        known = self._trusted.get(device)
        if known is None:
            known = self._trusted[device] = file_system_of(device) in _OWN_FILE_SYSTEMS
        return known


def file_system_of(device: int, mounts: Path = _MOUNTS) -> str | None:
    """Return the kind of the file system that a device number belongs to; None when the system does not tell."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in lines:
        # Number, parent, device, root, mount point, options, any number of tags, a dash, and the kind.
        head, dash, tail = line.partition(" - ")
        parts = head.split(" ")
        if dash and len(parts) > 2 and parts[2] == wanted:
            return tail.split(" ")[0]
    return None


def _mark(folder: str) -> Mark | None:
    try:
        told = os.stat(folder)
    except OSError:
        return None
    return told.st_dev, told.st_ino, told.st_mtime_ns, told.st_ctime_ns
