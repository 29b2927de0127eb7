"""Folders for files that can be made again at any time."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

CACHE_VARIABLE = "OMNIGRAPH_CACHE"


def cache_folder(name: str, environment: Mapping[str, str]) -> Path:
    """Return the folder of a cache, made if it is missing; a temporary one where none can be made.

    ``OMNIGRAPH_CACHE`` names the folder that it is in, else it is in the cache folder of the user.
    """
    from omnigraph.runtime.folders import private_folder, user_number  # noqa: PLC0415 - a local graph has no cache

    chosen = environment.get(CACHE_VARIABLE)
    base = Path(chosen) if chosen else _user_caches(environment) / "omnigraph"
    for folder in (base.absolute() / name, Path(tempfile.gettempdir()) / f"omnigraph-{name}-{user_number()}"):
        # Programs are started from here.
        with suppress(OSError):
            return private_folder(folder)
    return Path(tempfile.mkdtemp(prefix=f"omnigraph-{name}-"))


def _user_caches(environment: Mapping[str, str]) -> Path:
    if given := environment.get("XDG_CACHE_HOME"):
        return Path(given)
    home = environment.get("HOME")
    return Path(home) / ".cache" if home else Path(tempfile.gettempdir())
