"""Rows that a program hands over, laid down in temporary files that are read like any other.

So a request stays data, whatever it loads: it can be recorded, repeated and sent to a server with its files. Tables go
through Arrow's stream protocol, batch by batch; dictionaries become lines of plain JSONL, one by one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.scratch import ScratchFolder, sweep_scratch
from omnigraph.errors import IN_MEMORY, BadValue, FileAccessError, UsageError, place_of
from omnigraph.values.blobs import inline_text

_EXPECTED = "a DataFrame, an Arrow table or reader, or dictionaries"
# What pandas writes for a value that is not there.
_NOTHING = frozenset({"NAType", "NaTType"})


class RowFiles:
    """Temporary files with rows; made when the first rows come."""

    def __init__(self) -> None:
        self._folder: ScratchFolder | None = None
        self._count = 0

    def add(self, name: str, rows: Any) -> Source:
        """Lay down the rows of a type and return where they are.

        Args:
            name: the type; one that a node type and an edge type share is written ``node:Name`` or ``edge:Name``.
            rows: a DataFrame, an Arrow table or reader, or dictionaries; an iterator is read once.

        Raises:
            UsageError: they are none of these, or a value is one that no property could hold.
            FileAccessError: there is no space for them.
        """
        if self._folder is None:
            sweep_scratch()
            self._folder = ScratchFolder.make("rows")
        self._count += 1
        called = f"{name.partition(':')[2] or name}{IN_MEMORY}"
        reader = _reader(rows, called)
        path = self._folder.path / f"{self._count}.{'jsonl' if reader is None else 'arrow'}"
        with _writing(path):
            if reader is None:
                _write_rows(path, rows, called)
            else:
                _write_batches(path, reader, called)
        source_format: Any = "jsonl" if reader is None else "arrow"
        return Source(path=str(path), format=source_format, type_name=name, called=called)

    def close(self) -> None:
        """Remove them."""
        if self._folder is not None:
            self._folder.close()


@contextmanager
def open_row_files() -> Iterator[RowFiles]:
    """Make temporary files for rows; they go with the block."""
    files = RowFiles()
    try:
        yield files
    finally:
        files.close()


def _reader(rows: Any, called: str) -> pa.RecordBatchReader | None:
    """Return the batches of a table; None when it is not one."""
    if isinstance(rows, Mapping | str | bytes):
        raise _unreadable(rows, called)
    try:
        if hasattr(rows, "reset_index"):
            # A level of an index of pandas that has a name is a column; others only number the rows.
            levels = [at for at, name in enumerate(rows.index.names) if name is not None]
            rows = (rows.reset_index(level=levels) if levels else rows).reset_index(drop=True)
        if hasattr(rows, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(rows)
        if type(rows).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(rows, preserve_index=False).to_reader()
    except (pa.ArrowException, TypeError, ValueError) as problem:
        reason = "; ".join(str(part) for part in problem.args) or "unknown reason"
        details = BadValue(what="rows", value=type(rows).__name__, expected="columns of one type each")
        place = place_of(called, None)
        raise UsageError(f"the columns of '{place}' cannot be read: {reason}", details=details) from problem
    if not isinstance(rows, Iterable):
        raise _unreadable(rows, called)
    return None


def _unreadable(rows: Any, called: str) -> UsageError:
    shown = type(rows).__name__
    hint = "collect it first" if hasattr(rows, "collect") else None
    details = BadValue(what="rows", value=shown, expected=_EXPECTED)
    return UsageError(
        f"rows of '{place_of(called, None)}' must be {_EXPECTED}, not {shown}", details=details, hint=hint
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        details = BadValue(what="folder", value=str(path.parent), expected="space for temporary files")
        reason = (error.strerror or str(error)).lower()
        raise FileAccessError(f"cannot write temporary files to '{path.parent}': {reason}", details=details) from error


def _write_batches(path: Path, reader: pa.RecordBatchReader, called: str) -> None:
    try:
        with reader, pa.ipc.new_stream(str(path), reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        details = BadValue(what="rows", value=called, expected="batches of its columns")
        first = (str(problem).splitlines() or ["unknown reason"])[0]
        raise UsageError(
            f"the rows of '{place_of(called, None)}' cannot be read: {first}", details=details
        ) from problem


def _write_rows(path: Path, rows: Iterable[Any], called: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                shown = type(row).__name__
                details = BadValue(what="rows", value=shown, expected="a dictionary")
                raise UsageError(f"{place_of(called, number)}: a row is a dictionary, not {shown}", details=details)
            place = place_of(called, number)
            members = {_name(name, place): _plain(value, f"{place}.{name}") for name, value in row.items()}
            file.write(json.dumps(members, separators=(",", ":")))
            file.write("\n")


def _name(name: Any, place: str) -> str:
    if isinstance(name, str):
        return name
    details = BadValue(what="rows", value=type(name).__name__, expected="names of columns")
    raise UsageError(f"{place}: the name of a column is text, not {type(name).__name__}", details=details)


def _plain(value: Any, place: str) -> Any:  # noqa: C901 - a table: one case per kind of value
    """Return a value of Python as the JSON value that means the same; NaN is how others write that there is none."""
    if type(value).__name__ in _NOTHING:
        return None
    match value:
        case Enum():
            # Before the others: it may be a text or a number as well.
            return _plain(value.value, place)
        case None | bool() | int() | str():
            return value
        case float():
            return None if math.isnan(value) else value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return inline_text(value)
        case datetime() | date():
            return value.isoformat()
        case Decimal() | UUID():
            return None if isinstance(value, Decimal) and value.is_nan() else str(value)
        case Mapping():
            return {_name(name, place): _plain(item, f"{place}.{name}") for name, item in value.items()}
        case list() | tuple():
            return [_plain(item, place) for item in value]
    with suppress(TypeError, ValueError):
        if hasattr(value, "tolist"):
            # Scalars and arrays of numpy.
            return _plain(value.tolist(), place)
    shown = type(value).__name__
    details = BadValue(what="rows", value=shown, expected="a value of a property")
    raise UsageError(f"{place}: a value of type {shown} cannot be loaded", details=details)
