"""Arguments as people give them: texts or files, references, moments and durations."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, UsageError
from omnigraph.lang.source import MAX_SOURCE_BYTES
from omnigraph.operations.request import NOTHING, Attachments
from omnigraph.records import record
from omnigraph.values import check_instance
from omnigraph.values.temporal import format_datetime


@record
class NamedText:
    """A text and what errors call it."""

    text: str | bytes
    name: str


def query_text(argument: str | bytes | Path) -> NamedText:
    """Return the source of a query: a text, or the content of a file; a path object and ``….gq`` name a file.

    Raises:
        FileMissingError, FileAccessError: the file is not there, or cannot be read.
    """
    return _text_or_file(argument, ".gq", "<query>")


def schema_text(argument: str | bytes | Path) -> NamedText:
    """Return a schema: a text, or the content of a file; a path object and ``….pg`` name a file.

    Raises:
        FileMissingError, FileAccessError: the file is not there, or cannot be read.

    >>> schema_text("node Person { name: String }").name
    '<schema>'
    """
    return _text_or_file(argument, ".pg", "<schema>")


def moment_text(argument: str | datetime | None) -> str | None:
    """Return a moment as text; one without a time zone is in UTC."""
    if not isinstance(argument, datetime):
        return argument
    aware = argument if argument.tzinfo is not None else argument.replace(tzinfo=UTC)
    return format_datetime(round(aware.timestamp() * 1000))


def duration_s(argument: float | timedelta | None) -> float | None:
    """Return a duration in seconds."""
    return argument.total_seconds() if isinstance(argument, timedelta) else argument


def _text_or_file(argument: object, suffix: str, name: str) -> NamedText:
    if isinstance(argument, Path):
        return _read(argument)
    if isinstance(argument, str) and argument.endswith(suffix) and "\n" not in argument:
        return _read(Path(argument))
    if not isinstance(argument, str | bytes):
        found = type(argument).__name__
        details = BadValue(what="text", value=found, expected="str, bytes or a path")
        raise UsageError(f"{name} must be text, not {found}", details=details)
    return NamedText(text=argument, name=name)


def _read(path: Path) -> NamedText:
    from omnigraph.engine.load.sources.source import reading  # noqa: PLC0415 - most queries are texts

    name = str(path)
    # One byte past the limit is enough for the parser to refuse it, and an endless device still ends.
    most = MAX_SOURCE_BYTES + 1
    try:
        with reading(name), path.open("rb") as stream:
            return NamedText(text=stream.read(most), name=name)
    except FileAccessError as problem:
        if not isinstance(problem.__cause__, FileNotFoundError):
            raise
        details = MissingThing(what="file", name=name)
        raise FileMissingError(f"file '{name}' was not found", details=details) from problem


def data_of(options: QueryOptions | None) -> QueryOptions | None:
    """Return what of the options can be part of a request."""
    check_instance("options", options, QueryOptions)
    return options if options is None or options.cancel is None else replace(options, cancel=None)


def attachments_of(options: QueryOptions | None) -> Attachments:
    """Return what of the options accompanies a request."""
    return NOTHING if options is None or options.cancel is None else Attachments(cancel=options.cancel)
