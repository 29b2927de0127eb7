"""Texts that are given as they are or by the file that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omnigraph.engine.load.sources import Source, reading
from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, UsageError
from omnigraph.lang.source import MAX_SOURCE_BYTES
from omnigraph.records import record

GivenSource = str | Path | Source


@record
class GivenText:
    """A text and what errors call it."""

    text: str | bytes
    name: str


def query_text(given: str | bytes | Path) -> GivenText:
    """Return the source of a query: a text, or the content of a file when it is a path object.

    Raises:
        FileMissingError, FileAccessError: the file is not there, or cannot be read.
    """
    return _read(given) if isinstance(given, Path) else _text(given, "<query>")


def schema_text(given: str | bytes | Path) -> GivenText:
    """Return a schema. A string of one line without a brace, which no schema is, is the path of one.

    Raises:
        FileMissingError, FileAccessError: the file is not there, or cannot be read.

    >>> schema_text("node Person { name: String }").name
    '<schema>'
    """
    if isinstance(given, Path):
        return _read(given)
    if isinstance(given, str) and given.strip() and not {"{", "\n"} & set(given):
        return _read(Path(given))
    return _text(given, "<schema>")


def load_sources(given: GivenSource | Sequence[GivenSource]) -> list[Source | str]:
    """Return the sources of a load, of which a single one needs no list around it.

    Raises:
        UsageError: something among them is no source.
    """
    several = [given] if isinstance(given, str | Path | Source) or not isinstance(given, Sequence) else given
    return [item if isinstance(item, Source) else _path_text(item) for item in several]


def _path_text(given: object) -> str:
    if isinstance(given, str | Path):
        return str(given)
    details = BadValue(what="source", value=type(given).__name__, expected="a path or a Source")
    raise UsageError(f"nothing can be loaded from this: type={type(given).__name__}", details=details)


def _text(given: object, name: str) -> GivenText:
    if isinstance(given, str | bytes):
        return GivenText(text=given, name=name)
    details = BadValue(what="text", value=type(given).__name__, expected="str, bytes or a path")
    raise UsageError(f"{name} is no text: type={type(given).__name__}", details=details)


def _read(path: Path) -> GivenText:
    name = str(path)
    # One byte past the limit is enough for the parser to refuse it, and an endless device still ends.
    most = MAX_SOURCE_BYTES + 1
    try:
        with reading(name), path.open("rb") as stream:
            return GivenText(text=stream.read(most), name=name)
    except FileAccessError as problem:
        if not isinstance(problem.__cause__, FileNotFoundError):
            raise
        details = MissingThing(what="file", name=name)
        raise FileMissingError(f"no such file: path={name}", details=details) from problem
