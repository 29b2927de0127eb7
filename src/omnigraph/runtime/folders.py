"""Folders that only their owner may use, also below places that all users of a machine share."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# A folder that others may write to can hold links of theirs.
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def user_number() -> int:
    """Return the number of the user that this process acts for; 0 where the system has none."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def private_folder(path: Path) -> Path:
    """Return ``path``, made with the folders above it, once it is sure that no other user can put anything into it.

    Raises:
        OSError: it cannot be made or written to, belongs to another user, is a link, or others may write to it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if hasattr(os, "geteuid"):
        os.close(open_private_folder(path))
    else:  # pragma: no cover - temporary folders are private where users have no numbers
        path.mkdir(exist_ok=True)
    return path


def open_private_folder(path: Path) -> int:
    """Return a descriptor of the folder ``path``, made if it is missing; it stays that folder whatever takes its name.

    Raises:
        OSError: as for :func:`private_folder`, or there is no folder to make it in.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(folder)
    if found.st_uid != user_number() or found.st_mode & _WRITABLE_BY_OTHERS or not os.access(path, os.W_OK | os.X_OK):
        os.close(folder)
        raise PermissionError(errno.EPERM, "other users may have written to this folder", str(path))
    return folder


def open_private_file(name: str, folder: int) -> int:
    """Return a descriptor of a file in an open private folder, made if it is missing, for reading and writing.

    Raises:
        OSError: it is a link of either kind, not a file, or of another user.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    file = os.open(name, flags, 0o600, dir_fd=folder)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != user_number() or found.st_nlink != 1:
        os.close(file)
        raise PermissionError(errno.EPERM, "not a file of its own", name)
    return file
