"""Files that a config names."""

from __future__ import annotations

from pathlib import Path

from omnigraph.lang.source import MAX_SOURCE_BYTES


def read_named(file: Path) -> bytes | str:
    """Return the content of a file, or why it cannot be read."""
    try:
        with file.open("rb") as stream:
            # One byte past the limit is enough for parsers to refuse it, and an endless device still ends.
            return stream.read(MAX_SOURCE_BYTES + 1)
    except FileNotFoundError:
        return "it was not found"
    except IsADirectoryError:
        return "it is a directory"
    except (OSError, ValueError) as problem:
        return (getattr(problem, "strerror", None) or str(problem)).lower()
