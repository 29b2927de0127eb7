"""Which files a load reads: what globs, folders, exports and mappings stand for."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from omnigraph.engine.export.manifest import check_files, read_manifest
from omnigraph.engine.load.sources.dialect import OF_TEXT, USUAL
from omnigraph.engine.load.sources.mapping import MAPPING_NAME, FolderMapping, MappedFile, read_mapping, refuse
from omnigraph.engine.load.sources.source import STDIN, Source, reading, tells_format
from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, UsageError, Violation
from omnigraph.lang.source import MAX_SOURCE_BYTES
from omnigraph.store.files import FileFolder, is_remote, list_objects, open_input
from omnigraph.store.location import Storage


def expand_sources(
    sources: Sequence[Source | str],
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    check_sums: bool = False,
) -> tuple[Source, ...]:
    """Return one source per file: globs and folders become the files they hold, in the order of their names.

    Of a folder only files whose extension tells their format count; one that an export wrote becomes the files that
    its manifest lists, and one with a mapping is read as that says. ``options`` say how buckets are reached,
    ``check_sums`` that exported files are read once before, to compare their checksums.

    Raises:
        FileMissingError: there is no such file, or a glob matches none.
        ExportManifestError, ExportDamagedError: an exported folder is not complete, or not as it was written.
        MappingError: what a mapping says of the files of a folder makes no sense.
        UsageError: standard input is named twice, or something is said of columns or cells where there are none.
    """
    expanded: list[Source] = []
    for item in sources:
        source = Source(path=item) if isinstance(item, str) else item
        if is_remote(source.path):
            source = replace(source, options=dict(options))
        exported = _exported(source, check_sums=check_sums)
        if exported is not None:
            expanded.extend(exported)
            continue
        mapped = _mapped(source)
        if mapped is not None:
            expanded.extend(mapped)
            continue
        matches = [source.path] if source.path == STDIN else _matches(source)
        if not matches:
            what = "no file matches" if glob.has_magic(source.path) else "no such file"
            details = MissingThing(what="file", name=source.path)
            raise FileMissingError(f"{what} '{source.path}'", details=details)
        expanded.extend(replace(source, path=path) for path in matches)
    _refuse_unused(sources, expanded)
    if sum(source.path == STDIN for source in expanded) > 1:
        details_twice = BadValue(what="path", value=STDIN, expected="- at most once")
        raise UsageError("standard input can be read only once", details=details_twice)
    return tuple(expanded)


def can_read_again(sources: Sequence[Source | str]) -> bool:
    """Whether reading the sources twice gives their rows twice: a pipe is empty the second time."""
    return all(_is_stored(item if isinstance(item, str) else item.path) for item in sources)


def _is_stored(path: str) -> bool:
    if path == STDIN or is_remote(path):
        return path != STDIN
    return all(map(os.path.isfile, _matches(Source(path=path))))


def _exported(source: Source, *, check_sums: bool) -> list[Source] | None:
    """Return the files of a folder that an export wrote, nodes before edges; None when it is none."""
    path = source.path
    is_described = source.format is not None or source.type_name is not None or source.mapping is not None
    if path == STDIN or is_described or glob.has_magic(path):
        return None
    if tells_format(path) if is_remote(path) else not os.path.isdir(path):  # noqa: PTH112 - false, not an error, for a path that no disk takes
        return None
    folder = FileFolder(storage=Storage.open(path, source.options))
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    check_files(folder, manifest, checksums=check_sums)
    return [
        replace(
            source,
            path=f"{path.rstrip('/')}/{file.path}",
            format=manifest.format,
            type_name=owner.table_key,
            dialect=USUAL,
            mapping=None,
            is_exported=True,
            longest_bytes=file.longest_bytes,
        )
        for owner, file in manifest.iter_files()
    ]


def _mapped(source: Source) -> list[Source] | None:
    """Return the files of a folder as its mapping describes them; None when there is no mapping."""
    path = source.path
    is_folder = path != STDIN and (not tells_format(path) if is_remote(path) else os.path.isdir(path))  # noqa: PTH112 - see above
    if source.mapping is not None and not is_folder:
        details = BadValue(what="mapping", value=path, expected="a folder")
        raise UsageError(f"a mapping describes the files of a folder, which '{path}' is not", details=details)
    if not is_folder or source.format is not None or source.type_name is not None or glob.has_magic(path):
        return None
    place = source.mapping or f"{path.rstrip('/')}/{MAPPING_NAME}"
    data = _read_mapping(place, source)
    return None if data is None else _apply(read_mapping(data, place), source)


def _read_mapping(place: str, source: Source) -> bytes | None:
    try:
        with reading(place), open_input(place, source.options) as stream:
            # One byte past the limit is enough for the parser to refuse it.
            return stream.read(MAX_SOURCE_BYTES + 1)
    except FileAccessError as problem:
        if not isinstance(problem.__cause__, FileNotFoundError):
            raise
        if source.mapping is None:
            return None
        details = MissingThing(what="file", name=place)
        raise FileMissingError(f"no such file '{place}'", details=details) from problem


def _apply(mapping: FolderMapping, source: Source) -> list[Source]:
    folder = source.path.rstrip("/")
    plain = replace(source, mapping=None)
    owners: dict[str, MappedFile] = {}
    problems: list[Violation] = []
    for file in mapping.files:
        found = _matches(replace(plain, path=f"{folder}/{file.pattern}", format="csv"))
        if not found:
            problems.append(mapping.problem(f"no file of the folder matches '{file.pattern}'", file.line))
        for path in found:
            first = owners.setdefault(path, file)
            if first is not file:
                text = f"'{file.pattern}' and '{first.pattern}' both match file '{path}'"
                problems.append(mapping.problem(text, file.line))
    refuse(problems)
    skipped = {
        path for name in mapping.skip for path in _matches(replace(plain, path=f"{folder}/{name}", format="csv"))
    }
    sources = []
    for path in sorted({*_matches(plain), *owners} - skipped):
        found_file = owners.get(path)
        settings = {**mapping.settings, **({} if found_file is None else found_file.settings)}
        one = replace(plain, path=path, dialect=replace(plain.dialect, **settings))
        if found_file is not None:
            one = replace(one, type_name=found_file.type_name, format=found_file.format, columns=found_file.columns)
        sources.append(one)
    return sources


def _refuse_unused(given: Sequence[Source | str], expanded: Sequence[Source]) -> None:
    """Refuse what is said of columns and cells if no file has any."""
    for source in expanded:
        if source.columns and not source.is_table:
            raise UsageError(
                f"'{source.name}' is in the load format, which has no columns",
                details=BadValue(what="columns", value=source.name, expected="a file of one type"),
                hint="leave the columns out, or name the type of its rows if they are plain objects",
            )
    settings = [name for one in given if isinstance(one, Source) for name in one.dialect.settings]
    tables = [source for source in expanded if source.is_table and not source.is_exported]
    for name in settings:
        is_used = any(source.kind == "csv" or name not in OF_TEXT for source in tables)
        if not is_used:
            expected = "a CSV file" if name in OF_TEXT else "a file of one type"
            details = BadValue(what="dialect", value=name, expected=expected)
            raise UsageError(f"'{name}' applies only to {expected}; the load has none", details=details)


def _matches(source: Source) -> list[str]:
    path = source.path
    if is_remote(path):
        with reading(source.name):
            found = list(list_objects(path, source.options))
        return found if glob.has_magic(path) or found == [path] else [name for name in found if tells_format(name)]
    if source.format is None and os.path.isdir(path):  # noqa: PTH112 - see above
        return sorted(str(file) for file in Path(path).iterdir() if file.is_file() and tells_format(str(file)))
    if os.path.exists(path):  # noqa: PTH110 - see above
        return [path]
    return sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []  # noqa: PTH207 - the pattern may be absolute
