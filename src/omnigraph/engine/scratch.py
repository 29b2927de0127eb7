"""Temporary folders for what does not fit in memory.

Whoever uses a folder holds a lock on it, which ends with the process whatever ends the process. A folder that nobody
holds was left by somebody who was killed, and may go.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from omnigraph.errors import BadValue, FileAccessError
from omnigraph.records import record

_PREFIX = "omnigraph-tmp-"


@record
class ScratchFolder:
    """A folder of this process alone, held until it is closed."""

    path: Path
    lock: int

    @classmethod
    def make(cls, purpose: str) -> Self:
        """Make a folder whose name tells its purpose.

        Raises:
            FileAccessError: there is no place for temporary files.
        """
        try:
            while True:
                path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-"))
                lock = _hold(path)
                if lock is not None:
                    return cls(path=path, lock=lock)
        except OSError as error:
            where = str(error.filename or "")
            details = BadValue(what="folder", value=where, expected="space for temporary files")
            reason = (error.strerror or str(error)).lower()
            raise FileAccessError(f"cannot write temporary files to '{where}': {reason}", details=details) from error

    def close(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def sweep_scratch() -> None:
    """Remove the folders of processes that are gone; what cannot be removed stays and is no reason to fail."""
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_abandoned(path)


def _hold(path: Path) -> int | None:
    """Lock a folder that was just made; None when a sweep met it before it was locked."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with suppress(OSError):
        # Where a filesystem has no locks no sweep gets one either, so the folder is safe all the same.
        fcntl.flock(lock, fcntl.LOCK_EX)
    if path.is_dir():
        return lock
    os.close(lock)
    return None


def _remove_abandoned(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
