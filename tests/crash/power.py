"""Power cuts on paper: what a disk would hold if the power went just before each sync of an operation.

A recorder stands in for ``os.fsync``. It knows the bytes of every file and the entries of every folder as they were
when they were last synced, and before each further sync it draws up what would be left:

* ``lost``: only what was synced. New names are gone, and what was removed is back.
* ``torn``: every name that there is at that moment, because the disk happened to write the folders first; files whose
  bytes were never synced are empty, full of zeros or cut off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

VARIANTS = ("lost", "torn")


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The disk at one moment: files by path below the root, None for a folder; and what was about to be synced."""

    number: int
    before: str
    variant: str
    files: dict[str, bytes | None]

    def write_to(self, root: Path) -> Path:
        """Make a folder of it."""
        root.mkdir(parents=True)
        for path, data in sorted(self.files.items()):
            # Threads make and remove folders while a moment is drawn up, so that one may lack what it stands in.
            (root / path if data is None else (root / path).parent).mkdir(parents=True, exist_ok=True)
            if data is not None:
                (root / path).write_bytes(data)
        return root


@dataclass
class Recorder:
    """Follows what is on the disk below ``root``; everything that is there at the beginning is."""

    root: Path
    cuts: list[Cut] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._bytes: dict[int, bytes] = {}
        self._entries: dict[int, dict[str, tuple[int, bool]]] = {}
        # An open descriptor keeps the number of a file from being given to another one.
        self._kept: dict[int, int] = {}
        for folder, _, files in os.walk(self.root):
            self._sync_folder(Path(folder))
            for name in files:
                self._sync_file(Path(folder) / name)

    @contextmanager
    def recording(self, monkeypatch) -> Iterator[None]:
        """Record the block."""
        real = os.fsync

        def fsync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            with self._lock:
                self._draw(str(path))
                if path.is_dir():
                    self._sync_folder(path)
                else:
                    self._sync_file(path)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fsync)
            yield
        assert os.fsync is real
        with self._lock:
            self._draw("")

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in self._kept.values():
            os.close(descriptor)

    def _keep(self, path: Path) -> int:
        number = path.stat().st_ino
        if number not in self._kept:
            self._kept[number] = os.open(path, os.O_RDONLY)
        return number

    def _sync_file(self, path: Path) -> None:
        self._bytes[self._keep(path)] = path.read_bytes()

    def _sync_folder(self, path: Path) -> None:
        self._entries[self._keep(path)] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}

    def _draw(self, before: str) -> None:
        number = len(self.cuts) // len(VARIANTS)
        self.cuts.append(Cut(number=number, before=before, variant="lost", files=dict(self._synced("", self._top()))))
        self.cuts.append(Cut(number=number, before=before, variant="torn", files=dict(self._present(number))))

    def _top(self) -> int:
        return self.root.stat().st_ino

    def _synced(self, path: str, folder: int) -> Iterator[tuple[str, bytes | None]]:
        # The name of a folder may be on the disk before anything that the folder holds.
        for name, (number, is_folder) in self._entries.get(folder, {}).items():
            at = f"{path}/{name}".lstrip("/")
            if is_folder:
                yield at, None
                yield from self._synced(at, number)
            else:
                # A name that is on the disk before its bytes are.
                yield at, self._bytes.get(number, b"")

    def _present(self, number: int) -> Iterator[tuple[str, bytes | None]]:
        for path in sorted(self.root.rglob("*")):
            at = str(path.relative_to(self.root))
            try:
                if path.is_dir():
                    yield at, None
                else:
                    data = path.read_bytes()
                    is_synced = path.stat().st_ino in self._bytes
                    yield at, self._bytes[path.stat().st_ino] if is_synced else _torn(data, number)
            except FileNotFoundError:
                continue


def _torn(data: bytes, number: int) -> bytes:
    return (b"", bytes(len(data)), data[: len(data) // 2])[number % 3]
