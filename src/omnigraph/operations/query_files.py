"""``discover_queries``: the files of stored queries that a command, a program or a configuration names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import fspath
from pathlib import Path
from typing import Any

from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, UsageError
from omnigraph.ir.stored_queries import QuerySource

QueryFiles = str | Path | Iterable[str | Path] | Mapping[str, Mapping[str, str | Path]]
"""How stored queries are named: a file, a folder, several of these, or declarations with their files."""

SUFFIX = ".gq"
_FORMS = "a file, a folder, several of them, or {name: {file: FILE}}"


def discover_queries(root: str | Path, declared: Any) -> tuple[QuerySource, ...]:
    """Return the files of stored queries.

    Args:
        root: the folder that relative paths start from.
        declared: the path of a file; that of a folder, for the ``.gq`` files in it, in the order of their names, and
            those of no folder below it; a list of such paths; or a mapping from the names of queries to
            ``{"file": path}``, which registers these declarations of the files and no others. None is no file.

    Raises:
        FileMissingError, FileAccessError: one is not there, or cannot be read.
        UsageError: they are declared in another form.
    """
    texts: dict[Path, str] = {}
    found: list[QuerySource] = []
    for written, name in _declared(declared):
        for file in query_files(Path(root) / written):
            texts[file] = texts.get(file) or _read(file)
            only = None if name is None else frozenset({name})
            found.append(QuerySource(name=_shown(Path(root), file), text=texts[file], only=only))
    return tuple(found)


def query_files(path: Path) -> list[Path]:
    """Return the files that a path stands for: itself, or the ``.gq`` files of the folder that it is."""
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]


def _declared(declared: Any) -> Iterator[tuple[str | Path, str | None]]:
    """Yield every path, with the declaration that alone is registered."""
    match declared:
        case None:
            return
        case str() | Path():
            yield declared, None
        case Mapping():
            for name, value in declared.items():
                file = value.get("file") if isinstance(value, Mapping) and set(value) == {"file"} else None
                if not isinstance(file, str | Path) or not isinstance(name, str):
                    raise _malformed(value)
                yield file, name
        case Iterable() if not isinstance(declared, bytes):
            for item in declared:
                if not isinstance(item, str | Path):
                    raise _malformed(item)
                yield item, None
        case _:
            raise _malformed(declared)


def _shown(root: Path, file: Path) -> str:
    """Return what errors call a file: the way to it from the root, or its folder and name where it is elsewhere.

    A server says it to its callers, who need not learn where on the machine it stands.
    """
    try:
        return file.relative_to(root).as_posix()
    except ValueError:
        return "/".join(file.parts[-2:]) if file.is_absolute() else file.as_posix()


def _read(path: Path) -> str:
    try:
        # What is no UTF-8 is found by the parser, which says where.
        return path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError as problem:
        details = MissingThing(what="file", name=fspath(path))
        raise FileMissingError(f"file '{path}' was not found", details=details) from problem
    except (OSError, ValueError) as problem:
        why = str(getattr(problem, "strerror", None) or problem).lower()
        unreadable = BadValue(what="file", value=fspath(path), expected="a readable file")
        raise FileAccessError(f"cannot read '{path}': {why}", details=unreadable) from problem


def _malformed(value: Any) -> UsageError:
    details = BadValue(what="queries", value=str(value)[:100], expected=_FORMS)
    return UsageError(f"stored queries must be {_FORMS}, not {type(value).__name__}", details=details)
