"""The line of writers on one machine: who publishes on a branch now, and who is next.

Two locks of the operating system, which takes them back when a process ends: the writer that publishes holds ``turn``,
and the next one holds ``gate`` while it waits for ``turn``, so that a busy writer cannot overtake it. Writers that wait
put the names of their offers on a ``board``, so that the one that publishes next can read them without a listing. The
holder of a lock writes its process id into the file: if that process is stopped, the writers behind it use another line
until it goes on. If it just does not end, they go on without a line.

All of this is a hint. It saves work that would be done in vain; that only one writer publishes a version is what claims
and the compare-and-swap are for.

The locks lie in a folder that only the user can write to: below a graph on a disk of this machine, else in the user's
runtime folder or a temporary one. An object store has no place for them, and a lock on a network file system can be as
slow as the write that it saves. Writers of other users stand in a line of their own. Where no folder is safe, there is
no line.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path

from omnigraph.records import record
from omnigraph.runtime.folders import open_private_file, open_private_folder, user_number
from omnigraph.store.location import Storage
from omnigraph.txn.offers.board import Board

try:
    import fcntl
except ImportError:  # pragma: no cover - only where the system has no such locks
    fcntl = None  # type: ignore[assignment] # every use asks first

_log = logging.getLogger(__name__)
_RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"
# File systems whose locks travel over a network.
_REMOTE = ("nfs", "cifs", "smb", "9p", "ceph", "fuse", "lustre", "afs", "gfs", "beegfs", "gpfs")
# Branches share this many pairs of locks, so that the folder stays small. Two that meet wait for each other now and
# then, which costs them time and nothing else.
_PLACES = 4096
# As much as is read and written of what is told; names of offers that find no room in it are left out.
_NEWS_BYTES = 2048
# At the same place of both files, the id of the process that has the lock.
_SIGN_BYTES = 16
# The lines of a branch: the first one, and those that are used while the holder of the one before is stopped.
_LINES = 4


class Holder(Enum):
    """What the process that holds a lock is doing."""

    RUNNING = "it runs"
    STOPPED = "it is stopped"
    UNKNOWN = "nothing here tells"


@record
class News:
    """What whoever had the turn last told: the newest version that it published, and whose offers that brought."""

    version: int = 0
    offers: frozenset[str] = frozenset()


_NO_NEWS = News()


class MachineLine:
    """One process's place in the line of a branch. One thread at a time may use it."""

    def __init__(self, storage: Storage, branch: str, *, is_used: bool = True) -> None:
        name = _name(storage, branch)
        self._storage = storage
        self._place = f"{int.from_bytes(name) % _PLACES:04d}"
        # What is told is told to those of the same branch: others may share the place.
        self._mark = name.hex()
        self._is_used = is_used and fcntl is not None
        self._turn: int | None = None
        self._gate: int | None = None
        # Which line this process stands in, and the locks of the first one while it stands in another.
        self._number = 0
        self._first: tuple[int, int] | None = None
        self._board: Board | None = None
        self._read: tuple[bytes, News] = (b"", _NO_NEWS)
        self.is_held = False
        self._has_gate = False

    @property
    def is_next(self) -> bool:
        """Whether nobody else will have the turn before."""
        return self._has_gate

    def try_take(self, *, in_line: bool = False) -> bool:
        """Take the turn if it is free and nobody is next; True as well where there is no line to stand in.

        Args:
            in_line: whether to stay next, once nobody else is. A writer that others may publish for leaves that to
                those who have to publish themselves.
        """
        if not self._is_used or self.is_held:
            return True
        self._come_back()
        self._open()
        if self._turn is None or self._gate is None:
            return True
        if in_line or self._has_gate:
            if not self._has_gate and _try_lock(self._gate):
                self._has_gate = True
                _sign(self._gate)
            self.is_held = self._has_gate and _try_lock(self._turn)
        elif _try_lock(self._turn):
            self.is_held = self._has_gate = _try_lock(self._gate)
            if not self.is_held:
                _unlock(self._turn)
        if self.is_held:
            _sign(self._turn)
            self._leave_gate()
        return self.is_held

    @property
    def holder(self) -> Holder:
        """What the process with the turn, and the next one, are doing: stopped if one of them is."""
        return Holder.UNKNOWN if self._turn is None or self._gate is None else _holder_of(self._turn, self._gate)

    def leave(self, version: int | None = None, offers: Sequence[str] = ()) -> None:
        """Let the next one have its turn, and tell those who wait which version was published, with which offers."""
        if self._turn is not None and self.is_held:
            if version is not None:
                with suppress(OSError):
                    os.pwrite(self._turn, self._news_of(version, offers), 0)
            _sign(self._turn, "")
            _unlock(self._turn)
        self.is_held = False
        self._leave_gate()
        if self._board is not None:
            self._board.clear()

    def step_aside(self) -> bool:
        """Move to the next line, if the process that blocks this one is stopped; return whether it moved."""
        if self.is_held or self._turn is None or self._gate is None:
            return False
        if self._number + 1 == _LINES or self.holder is not Holder.STOPPED:
            return False
        self._leave_gate()
        if self._first is None:
            self._first, self._turn, self._gate = (self._turn, self._gate), None, None
        self._close_locks()
        self._number += 1
        return True

    def announce(self, offer: str) -> None:
        """Put the name of an offer on the board, where it stays until this process leaves the line."""
        if self._board is not None:
            self._board.announce(offer)

    def announced(self) -> tuple[str, ...]:
        """Return the names of the offers that others of this machine say they have made, oldest first: a hint."""
        return () if self._board is None else self._board.announced()

    def wipe(self, offers: Collection[str]) -> None:
        """Remove the names of offers that are gone or published, also those of processes that have ended."""
        if self._board is not None:
            self._board.wipe(offers)

    def news(self) -> News:
        """Return what a writer of this machine has told last.

        It can be old, half of it can be of another time, and versions of other machines are missing: a hint.
        """
        if self._turn is None:
            return _NO_NEWS
        try:
            data = os.pread(self._turn, _NEWS_BYTES, 0)
            if data != self._read[0]:
                mark, version, *offers = data.decode().split()
                is_ours = mark == self._mark
                self._read = (data, News(version=int(version), offers=frozenset(offers)) if is_ours else _NO_NEWS)
        except (OSError, ValueError):
            return _NO_NEWS
        return self._read[1]

    def close(self) -> None:
        """Leave the line for good."""
        self.leave()
        self._close_locks()
        self._forget_first()
        if self._board is not None:
            self._board.close()
        self._board = None

    def _come_back(self) -> None:
        """Return to the first line, unless the process that blocks it is still stopped."""
        if self._first is None:
            return
        if _holder_of(*self._first) is not Holder.STOPPED:
            self._leave_gate()
            self._close_locks()
            self._forget_first()

    def _close_locks(self) -> None:
        for descriptor in (self._turn, self._gate):
            if descriptor is not None:
                os.close(descriptor)
        self._turn = self._gate = None

    def _forget_first(self) -> None:
        for descriptor in self._first or ():
            os.close(descriptor)
        self._first, self._number = None, 0

    def _news_of(self, version: int, offers: Sequence[str]) -> bytes:
        news = f"{self._mark} {version}"
        for name in offers:
            if len(news) + len(name) + 1 < _NEWS_BYTES:
                news += f" {name}"
        return news.ljust(_NEWS_BYTES).encode()

    def _leave_gate(self) -> None:
        if self._gate is not None and self._has_gate:
            _sign(self._gate, "")
            _unlock(self._gate)
        self._has_gate = False

    def _open(self) -> None:
        if self._turn is not None:
            return
        number = self._number or ""
        for place in _folders(self._storage):
            try:
                folder = open_private_folder(place)
            except OSError:
                continue
            try:
                self._turn = open_private_file(f"{self._place}.turn{number}", folder)
                self._gate = open_private_file(f"{self._place}.gate{number}", folder)
                if self._board is None:
                    self._board = Board(open_private_file(f"{self._place}.board", folder), self._mark)
            except OSError:
                self._close_locks()
            else:
                return
            finally:
                os.close(folder)
        self._is_used = False
        self.close()
        _miss_line()


@cache
def _miss_line() -> None:
    """Say once that there is no line."""
    _log.warning(
        "no folder for locks is safe from other users, so writers of this machine do not line up: set %s",
        _RUNTIME_VARIABLE,
    )


def _folders(storage: Storage) -> Iterator[Path]:
    """Yield where the locks of a user may lie, in an order that is the same for all of the user's processes."""
    user = user_number()
    if storage.is_local and not _is_remote(storage.path()):
        yield storage.path(f"__lines~{user}")
    if given := os.environ.get(_RUNTIME_VARIABLE):
        yield Path(given, "omnigraph-lines")
    with suppress(OSError):
        yield Path(tempfile.gettempdir(), f"omnigraph-lines-{user}")


def _is_remote(path: Path) -> bool:
    """Whether a path is known to be on a network file system."""
    try:
        device = path.stat().st_dev
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = (line.partition(" - ")[2] for line in mounts.splitlines() if line.split(" ")[2:3] == [number])
    return any(kind.startswith(_REMOTE) for kind in kinds)


def _name(storage: Storage, branch: str) -> bytes:
    root = os.path.realpath(storage.root) if storage.is_local else storage.root
    endpoints = sorted(value for name, value in storage.options.items() if "endpoint" in name.lower())
    text = "\n".join([root, branch, *endpoints])
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()


def _sign(lock: int, text: str | None = None) -> None:
    """Write down who has a lock; nobody, if ``text`` is empty."""
    name = str(os.getpid()) if text is None else text
    with suppress(OSError):
        os.pwrite(lock, name.ljust(_SIGN_BYTES).encode(), _NEWS_BYTES)


def _holder_of(*locks: int) -> Holder:
    """Return what the processes do that have signed; one may be of another namespace, which costs time alone."""
    found = set()
    for lock in locks:
        try:
            pid = int(os.pread(lock, _SIGN_BYTES, _NEWS_BYTES))
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            continue
        found.add(Holder.STOPPED if state in "Tt" else Holder.RUNNING)
    return next((state for state in (Holder.STOPPED, Holder.RUNNING) if state in found), Holder.UNKNOWN)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
