"""Libraries of others that conversions need, imported only when one is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from omnigraph.errors import LibraryMissingError, MissingThing


def library(name: str, *, hint: str) -> Any:
    """Return a library.

    Raises:
        LibraryMissingError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as problem:
        raise LibraryMissingError(
            f"this conversion needs a library that is not installed: library={name}",
            details=MissingThing(what="library", name=name),
            hint=hint,
        ) from problem
