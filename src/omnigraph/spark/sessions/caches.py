"""The folder of small files that make Spark start sooner; all of them can be made again at any time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

CACHE_VARIABLE = "OMNIGRAPH_CACHE"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for what Spark's start needs, made if it is missing; a temporary one where none can be made.

    ``OMNIGRAPH_CACHE`` names it, else it is in the cache folder of the user.
    """
    chosen = environment.get(CACHE_VARIABLE)
    base = Path(chosen) if chosen else _user_caches(environment) / "omnigraph"
    for folder in (base.absolute() / "spark", Path(tempfile.gettempdir()) / f"omnigraph-spark-{_user_number()}"):
        if _is_ours(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix="omnigraph-spark-"))


def cache_key(*parts: str) -> str:
    """Return a short name for what depends on all of ``parts``.

    >>> cache_key("a", "b") == cache_key("a", "b") != cache_key("ab", "")
    True
    """
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def place_file(path: Path, text: str, *, is_executable: bool = False) -> None:
    """Put a file in its place unless it is there, at once and as a whole, whoever else does the same."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o700 if is_executable else 0o600)
    Path(name).replace(path)


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
