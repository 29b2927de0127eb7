"""Blob columns: bytes to everyone above this room, descriptors and side files to Lance.

Lance reports a blob column as an extension type once rows were written, scans it as descriptors unless asked for
bytes, and keeps larger values in a folder beside the data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa

BLOB_ENCODING = {b"lance-encoding:blob": b"true"}
_EXTENSION = "lance.blob.v2"


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns as rows are written: a blob is ``large_binary`` whatever Lance made of it."""
    if not any(_is_extension(field) for field in schema):
        return schema
    return pa.schema([_plain(field) for field in schema], metadata=schema.metadata)


def blob_columns(schema: pa.Schema) -> frozenset[str]:
    """Return the names of the blob columns of a plain schema."""
    return frozenset(field.name for field in schema if BLOB_ENCODING.items() <= (field.metadata or {}).items())


def blob_handling(names: Iterable[str], blobs: frozenset[str]) -> Literal["all_binary"] | None:
    """Return how a scan of ``names`` must read blobs: as bytes when there is one among them."""
    return "all_binary" if not blobs.isdisjoint(names) else None


def iter_blob_files(data_file: Path) -> Iterator[Path]:
    """Return the files that hold the larger blobs of a local data file."""
    folder = data_file.with_suffix("")
    if data_file.suffix == ".lance" and folder.is_dir():
        yield from folder.iterdir()


def _is_extension(field: pa.Field) -> bool:
    return isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == _EXTENSION


def _plain(field: pa.Field) -> pa.Field:
    if not _is_extension(field):
        return field
    metadata = {**(field.metadata or {}), **BLOB_ENCODING}
    return pa.field(field.name, pa.large_binary(), nullable=field.nullable, metadata=metadata)
