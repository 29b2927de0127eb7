"""Folders for files that can be made again at any time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

CACHE_VARIABLE = "OMNIGRAPH_CACHE"


def cache_folder(name: str, environment: Mapping[str, str]) -> Path:
    """Return the folder of a cache, made if it is missing; a temporary one where none can be made.

    ``OMNIGRAPH_CACHE`` names the folder that it is in, else it is in the cache folder of the user.
    """
    chosen = environment.get(CACHE_VARIABLE)
    base = Path(chosen) if chosen else _user_caches(environment) / "omnigraph"
    for folder in (base.absolute() / name, Path(tempfile.gettempdir()) / f"omnigraph-{name}-{_user_number()}"):
        if _is_ours(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix=f"omnigraph-{name}-"))


def _is_ours(folder: Path) -> bool:
    # Programs are started from here: a folder that somebody else made in a shared place must not be used.
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder.stat().st_uid == _user_number() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _user_number() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _user_caches(environment: Mapping[str, str]) -> Path:
    if given := environment.get("XDG_CACHE_HOME"):
        return Path(given)
    home = environment.get("HOME")
    return Path(home) / ".cache" if home else Path(tempfile.gettempdir())
