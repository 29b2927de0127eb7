"""The folder of small files that make Spark start sooner; all of them can be made again at any time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


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
