"""Columns: adding empty ones, dropping, renaming, requiring values, all in one commit and without touching a data file.

Data files name columns by field id. A column keeps its id for life, and a new one gets an id that was never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceOperation
from lance.schema import LanceSchema

from omnigraph.errors import InternalError
from omnigraph.runtime import Counters, World
from omnigraph.store.blobs import BLOB_ENCODING
from omnigraph.store.staging.commit import Origin, StagedCommit, staged_on
from omnigraph.store.table import Table
from omnigraph.store.translate import translating


def stage_columns(
    table: Table,
    schema: pa.Schema,
    origins: Mapping[str, str],
    *,
    operation_id: str,
    world: World,
    counters: Counters,  # noqa: ARG001 - staging calls look alike, and this one makes no call
) -> StagedCommit:
    """Stage a version that has exactly the columns of ``schema``; nothing is uploaded, row ids and row order stay.

    Indexes of columns that go on stay in use under their names; those of dropped columns leave with them.

    Args:
        table: the version to build on.
        schema: the columns afterwards. One that goes on keeps its type; that no row holds null in a column that
            becomes required is for the caller to know.
        origins: for every column that goes on, its name in ``table``. The others are added, null in every row.
        operation_id: written into the commit, so that recovery knows it as ours.
        world: where the commit's uuid comes from.
        counters: where the calls go.
    """
    _refuse_impossible(table, schema, origins)
    metadata, messages = _parts(table.handle.lance_schema)
    groups = {
        name: (field_id, group)
        for (field_id, name), group in zip(table.fields, _grouped(table.handle.lance_schema, messages), strict=True)
    }
    protos: list[bytes] = []
    following = table.handle.max_field_id + 1
    with translating("change columns", table.pin.location):
        for field in schema:
            if field.name in origins:
                field_id, group = groups[origins[field.name]]
                stored = table.handle.schema.field(origins[field.name])
                wanted = _restated(stored, table.schema.field(origins[field.name]), field)
                protos += group if wanted.equals(stored, check_metadata=True) else _protos(wanted, field_id)
            else:
                added = _protos(field, following)
                protos += added
                following += len(added)
        lance_schema = LanceSchema._from_protos(metadata, *protos)  # noqa: SLF001 - the only way that keeps field ids
    keeps_nullability = all(
        table.schema.field(old).nullable == schema.field(new).nullable for new, old in origins.items()
    )
    return staged_on(
        table,
        LanceOperation.Project(lance_schema, preserves_nullability=keeps_nullability),
        kind="project",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=table.row_count,
        files=(),
    )


def _refuse_impossible(table: Table, schema: pa.Schema, origins: Mapping[str, str]) -> None:
    location = table.pin.location
    names = schema.names
    if len(set(names)) != len(names) or len(set(origins.values())) != len(origins):
        raise InternalError(f"a column is named twice location={location}")
    if missing := sorted((set(origins) - set(names)) | (set(origins.values()) - set(table.schema.names))):
        raise InternalError(f"no such columns: {missing} location={location}")
    for field in schema:
        if field.name not in origins:
            if not field.nullable:
                raise InternalError(f"an added column must allow null column={field.name} location={location}")
        elif field.type != table.schema.field(origins[field.name]).type:
            raise InternalError(f"a column cannot change its type column={field.name} location={location}")


def _restated(stored: pa.Field, plain: pa.Field, wanted: pa.Field) -> pa.Field:
    """Return ``stored`` under the name, nullability and metadata of ``wanted``."""
    metadata = dict(wanted.metadata or {})
    if stored.type != plain.type:
        # A blob that Lance has made a type of its own of does not carry the mark that makes it one.
        metadata = {key: value for key, value in metadata.items() if key not in BLOB_ENCODING}
    return stored.with_name(wanted.name).with_nullable(wanted.nullable).with_metadata(metadata or None)


def _parts(schema: LanceSchema) -> tuple[str, list[bytes]]:
    # Lance hands out its field messages only to the pickling machinery.
    metadata, *fields = tuple(schema.__reduce__()[1])
    return str(metadata), [bytes(field) for field in fields]


def _grouped(schema: LanceSchema, protos: Sequence[bytes]) -> list[list[bytes]]:
    """Return the messages of each column: its own, followed by those of the fields nested in it."""
    groups, start = [], 0
    for field in schema.fields():
        size = _size(field)
        groups.append(list(protos[start : start + size]))
        start += size
    return groups


def _size(field: Any) -> int:
    return 1 + sum(_size(child) for child in field.children())


def _protos(field: pa.Field, first_id: int) -> list[bytes]:
    # Lance numbers the fields of a schema from zero on, so as many others stand before ours.
    padding = [pa.field(f"padding-{number}", pa.int8()) for number in range(first_id)]
    return _parts(LanceSchema.from_pyarrow(pa.schema([*padding, field])))[1][first_id:]
