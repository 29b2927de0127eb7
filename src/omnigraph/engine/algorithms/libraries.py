"""The libraries that do the heavy work, imported when an algorithm first needs them."""

from __future__ import annotations

from typing import Any

from omnigraph.distribution import pip_install
from omnigraph.engine.results.frames import library

_HINT = f"install it with `{pip_install('algorithms')}`"
_WHAT = "algorithm"


def sparse() -> Any:
    """Return the sparse matrices of scipy.

    Raises:
        LibraryMissingError: scipy is not installed.
    """
    return library("scipy.sparse", hint=_HINT, what=_WHAT)


def sparse_graphs() -> Any:
    """Return the algorithms of scipy on sparse matrices.

    Raises:
        LibraryMissingError: scipy is not installed.
    """
    return library("scipy.sparse.csgraph", hint=_HINT, what=_WHAT)


def igraph() -> Any:
    """Return igraph.

    Raises:
        LibraryMissingError: it is not installed.
    """
    return library("igraph", hint=_HINT, what=_WHAT)
