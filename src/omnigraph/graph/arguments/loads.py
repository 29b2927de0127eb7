"""What a load is given: files, sources, or rows that a program holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.engine.load.sources.memory import RowFiles
from omnigraph.engine.load.sources.source import Source
from omnigraph.errors import BadValue, UsageError
from omnigraph.values import check_text

SourceArgument = str | Path | Source
# What a load takes: files, one or several; or by type a file, a DataFrame, an Arrow table or reader, or dictionaries.
LoadArgument = SourceArgument | Sequence[SourceArgument] | Mapping[str, Any]


def load_sources(argument: SourceArgument | Sequence[SourceArgument]) -> list[Source | str]:
    """Return the sources of a load, of which a single one needs no list around it.

    Raises:
        UsageError: something among them is no source.
    """
    if isinstance(argument, str | Path | Source) or not isinstance(argument, Sequence):
        argument = [argument]
    return [item if isinstance(item, Source) else _path_text(item) for item in argument]


def row_sources(argument: LoadArgument, files: RowFiles) -> list[Source | str]:
    """Return the sources of a load; rows that are in memory are laid down in ``files``.

    Raises:
        UsageError: something among them is no source, or cannot be read as rows.
        FileAccessError: there is no space for temporary files.
    """
    if not isinstance(argument, Mapping):
        return load_sources(argument)
    found: list[Source | str] = []
    for name, rows in argument.items():
        check_text("type", name)
        if isinstance(rows, Source):
            found.append(replace(rows, type_name=name))
        elif isinstance(rows, str | Path):
            found.append(Source(path=str(rows), type_name=name))
        else:
            found.append(files.add(name, rows))
    return found


def _path_text(argument: object) -> str:
    if isinstance(argument, str | Path):
        return str(argument)
    found = type(argument).__name__
    details = BadValue(what="source", value=found, expected="a path or a Source")
    hint = "pass rows by type, as in {'Person': rows}"
    raise UsageError(f"cannot load from a value of type {found}", details=details, hint=hint)
