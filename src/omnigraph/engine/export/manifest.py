"""The manifest of an exported folder: what it holds, of which state, and how to tell that it is whole.

It is written when every file is there, so that a folder with a manifest is complete. While an export runs its folder
holds a marker instead, which also keeps a second export out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Literal

from omnigraph.engine.export.options import FORMATS, ExportFormat
from omnigraph.errors import BadValue, ExportDamagedError, ExportManifestError, FormatMismatch
from omnigraph.records import record
from omnigraph.store.files import FileFolder

MANIFEST = "manifest.json"
MARKER = "_INCOMPLETE"
SCHEMA = "schema.pg"
FOLDERS = {"node": "nodes", "edge": "edges"}
_NAME = "omnigraph-export"
_VERSION = 1


@record
class ExportedFile:
    """One file; ``longest_bytes`` is the length of its longest line, 0 where there are no lines."""

    path: str
    rows: int
    size_bytes: int
    sha256: str
    longest_bytes: int = 0


@record
class TypeFiles:
    """The files of one type, in the order of its rows."""

    kind: Literal["node", "edge"]
    name: str
    rows: int
    files: tuple[ExportedFile, ...]

    @property
    def table_key(self) -> str:
        """The name that no type of the other kind shares."""
        return f"{self.kind}:{self.name}"


@record
class ExportManifest:
    """What an exported folder holds; nodes stand before edges."""

    format: ExportFormat
    branch: str
    commit_id: str
    schema_hash: str
    schema: str
    created_at: str
    types: tuple[TypeFiles, ...]

    def to_bytes(self) -> bytes:
        """Return the text of the file."""
        head = {"kind": _NAME, "version": _VERSION, "total_rows": sum(item.rows for item in self.types)}
        return (json.dumps({**head, **asdict(self)}, indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> ExportManifest:
        """Read the text of the file; ``name`` is what errors call it.

        Raises:
            ExportManifestError: it is none, or one of another version.
        """
        try:
            found = json.loads(data)
            if found["kind"] != _NAME or found["version"] != _VERSION:
                raise _unreadable(name, f"{found['kind']} {found['version']}")
            return cls(
                format=_format(found["format"]),
                branch=str(found["branch"]),
                commit_id=str(found["commit_id"]),
                schema_hash=str(found["schema_hash"]),
                schema=str(found["schema"]),
                created_at=str(found["created_at"]),
                types=tuple(_type(item) for item in found["types"]),
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise _unreadable(name, "something else") from error

    def iter_files(self) -> Iterator[tuple[TypeFiles, ExportedFile]]:
        """Yield every file with its type."""
        for item in self.types:
            for file in item.files:
                yield item, file


def read_manifest(folder: FileFolder) -> ExportManifest | None:
    """Return the manifest of a folder; None when the folder is no export.

    Raises:
        ExportManifestError: the export was not finished, or is of another version.
    """
    name = folder.storage.uri(MANIFEST)
    data = folder.get(MANIFEST)
    if data is not None:
        return ExportManifest.from_bytes(data, name)
    if folder.size_of(MARKER) is not None:
        raise ExportManifestError(
            f"the export in '{folder.storage.root}' was not finished",
            details=FormatMismatch(what="export", expected=MANIFEST, found=MARKER),
        )
    return None


def check_files(folder: FileFolder, manifest: ExportManifest, *, checksums: bool) -> None:
    """Compare every file with what the manifest says: its length, and with ``checksums`` its content.

    Raises:
        ExportDamagedError: one is missing or differs.
    """
    for _, file in manifest.iter_files():
        size = folder.size_of(file.path)
        if size is None:
            raise _damaged(folder, file, "is missing", "nothing")
        if size != file.size_bytes:
            raise _damaged(folder, file, "does not have the recorded length", f"{size} bytes")
        if checksums and (found := folder.checksum_of(file.path)) != file.sha256:
            raise _damaged(folder, file, "does not have the recorded checksum", found)


def _format(text: str) -> ExportFormat:
    # A text that is none of them raises.
    return FORMATS[FORMATS.index(text)]


def _type(found: Mapping[str, Any]) -> TypeFiles:
    return TypeFiles(
        kind="node" if found["kind"] == "node" else "edge",
        name=str(found["name"]),
        rows=int(found["rows"]),
        files=tuple(
            ExportedFile(
                path=str(file["path"]),
                rows=int(file["rows"]),
                size_bytes=int(file["size_bytes"]),
                sha256=str(file["sha256"]),
                longest_bytes=int(file["longest_bytes"]),
            )
            for file in found["files"]
        ),
    )


def _unreadable(name: str, found: str) -> ExportManifestError:
    details = FormatMismatch(what="export manifest", expected=f"{_NAME} {_VERSION}", found=found)
    return ExportManifestError(f"this version cannot read manifest '{name}'", details=details)


def _damaged(folder: FileFolder, file: ExportedFile, problem: str, found: str) -> ExportDamagedError:
    details = BadValue(what=file.path, value=found, expected=f"{file.size_bytes} bytes, sha256 {file.sha256}")
    return ExportDamagedError(f"exported file '{folder.storage.uri(file.path)}' {problem}", details=details)
