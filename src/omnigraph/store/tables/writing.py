"""Uploading rows as fragments that no version lists yet.

Lance reports a blob column as an extension type once rows were written, scans it as descriptors unless asked for
bytes, and keeps larger values in a folder beside the data file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
from lance import LanceDataset
from lance.fragment import FragmentMetadata, write_fragments
from lance.schema import LanceSchema

from omnigraph.errors import Effect
from omnigraph.runtime import current_counters
from omnigraph.store.handles import UPLOAD_STAGES, Handles, metered
from omnigraph.store.tables.layouts import with_schema
from omnigraph.store.translate import translating

BLOB_ENCODING = {b"lance-encoding:blob": b"true"}
# How names of data files end.
DATA_SUFFIX = ".lance"
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


def iter_blob_files(data_file: str) -> Iterator[str]:
    """Return the files that hold the larger blobs of a local data file."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(data_file.removesuffix(DATA_SUFFIX)) as entries:
        for entry in entries:
            yield entry.path


def _is_extension(field: pa.Field) -> bool:
    return isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == _EXTENSION


def _plain(field: pa.Field) -> pa.Field:
    if not _is_extension(field):
        return field
    metadata = {**(field.metadata or {}), **BLOB_ENCODING}
    return pa.field(field.name, pa.large_binary(), nullable=field.nullable, metadata=metadata)


def write_into(
    handle: LanceDataset,
    rows: pa.Table,
    location: str,
    *,
    schema: pa.Schema | None = None,
    known: pa.Schema | None = None,
) -> list[FragmentMetadata]:
    """Upload rows beside an existing dataset: one call per fragment, none for no rows.

    Args:
        handle: the dataset and branch the files go to.
        rows: what to write; columns are brought into the order and types of the schema.
        location: for error messages.
        schema: the schema that the next version will have, when it is not that of ``handle``.
        known: the columns of ``handle`` as rows are written, for a caller who has them.
    """
    with translating("write a fragment", location, effect=Effect.STAGED):
        own = known if known is not None and schema is None else schema
        fitted = fit(rows, plain_schema(handle.schema) if own is None else own)
        if fitted.num_rows == 0:
            return []
        mode = "append" if schema is None else "overwrite"
        with metered(handle, stages=UPLOAD_STAGES):
            written: list[FragmentMetadata] = write_fragments(fitted, handle, schema=fitted.schema, mode=mode)
        return written


def write_new(
    handles: Handles, location: str, rows: pa.Table, schema: pa.Schema
) -> tuple[list[FragmentMetadata], LanceSchema]:
    """Upload rows for a dataset that does not exist yet; return the fragments and the columns as they were numbered.

    A blob takes several numbers in a file, which the schema alone does not show.

    Raises:
        AlreadyExistsError: it exists.
    """
    handles.check_process()
    with translating("write a fragment", location, effect=Effect.STAGED):
        fitted = fit(rows, schema)
        if fitted.num_rows == 0:
            return [], LanceSchema.from_pyarrow(schema)
        operation: Any = write_fragments(
            fitted,
            handles.uri(location, None),
            schema=schema,
            mode="create",
            storage_options=handles.options or None,
            session=handles.session,
            return_transaction=True,
        ).operation
    written: list[FragmentMetadata] = list(operation.fragments)
    # A dataset that does not exist keeps no statistics: one listing, one upload per fragment.
    size_bytes = sum(file.file_size_bytes or 0 for fragment in written for file in fragment.files)
    current_counters().add_calls("lance.read")
    current_counters().add_calls("lance.write", len(written), bytes_written=size_bytes)
    current_counters().add_serial_stages(2)
    return written, operation.new_schema


def write_over(
    handle: LanceDataset, rows: pa.Table, location: str, schema: pa.Schema
) -> tuple[list[FragmentMetadata], LanceSchema]:
    """Upload rows with other columns beside a dataset; return the fragments and the columns as they were numbered."""
    with translating("write a fragment", location, effect=Effect.STAGED):
        fitted = fit(rows, schema)
        if fitted.num_rows == 0:
            return [], LanceSchema.from_pyarrow(schema)
        with metered(handle, stages=UPLOAD_STAGES):
            operation: Any = write_fragments(
                fitted, handle, schema=schema, mode="overwrite", return_transaction=True
            ).operation
    return list(operation.fragments), operation.new_schema


def fit(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns of ``schema``, in its order and types."""
    return with_schema(rows, schema)
