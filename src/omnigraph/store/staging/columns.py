"""Columns: adding empty ones, dropping and renaming, without touching a data file.

Data files name columns by field id. A column keeps its id for life, and a new one gets an id that was never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceOperation
from lance.schema import LanceSchema

from omnigraph.errors import Effect, InternalError
from omnigraph.runtime import Counters, World
from omnigraph.store.staging.commit import Origin, StagedCommit, staged_on
from omnigraph.store.table import Table
from omnigraph.store.translate import translating


def stage_add_columns(
    table: Table,
    fields: Sequence[pa.Field],
    *,
    operation_id: str,
    world: World,
    counters: Counters,  # noqa: ARG001 - staging calls look alike, and this one makes no call
) -> StagedCommit:
    """Stage columns that are null in every row there is; nothing is uploaded."""
    _refuse_names(table, [field.name for field in fields], taken=set(table.schema.names))
    if not all(field.nullable for field in fields):
        raise InternalError(f"a column that is null everywhere must allow null location={table.pin.location}")
    metadata, known = _parts(table.handle.lance_schema)
    with translating("add columns", table.pin.location):
        added = _protos(fields, first_id=table.handle.max_field_id + 1)
        schema = LanceSchema._from_protos(metadata, *known, *added)  # noqa: SLF001 - the only way that keeps field ids
    operation = LanceOperation.Merge([fragment.metadata for fragment in table.fragments], schema)
    return staged_on(
        table,
        operation,
        kind="add_columns",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=table.row_count,
        files=(),
    )


def stage_project(
    table: Table,
    columns: Mapping[str, str],
    *,
    operation_id: str,
    world: World,
    counters: Counters,  # noqa: ARG001 - staging calls look alike, and this one makes no call
) -> StagedCommit:
    """Stage a version that has only the given columns, each under the name it maps to; nothing is uploaded.

    Args:
        table: the version to build on.
        columns: kept columns, old name to new name; all others are dropped.
        operation_id: written into the commit, so that recovery knows it as ours.
        world: where the commit's uuid comes from.
        counters: where the calls go.
    """
    _refuse_names(table, list(columns.values()), taken=set())
    if missing := set(columns) - set(table.schema.names):
        raise InternalError(f"no such columns: {sorted(missing)} location={table.pin.location}")
    metadata, protos = _parts(table.handle.lance_schema)
    kept = []
    with translating("change columns", table.pin.location, effect=Effect.NONE):
        for (field_id, name), proto in zip(table.fields, _grouped(table.handle.lance_schema, protos), strict=True):
            if name in columns:
                renamed = table.schema.field(name).with_name(columns[name])
                kept += proto if columns[name] == name else _protos([renamed], first_id=field_id)
        schema = LanceSchema._from_protos(metadata, *kept)  # noqa: SLF001 - the only way that keeps field ids
    return staged_on(
        table,
        LanceOperation.Project(schema, preserves_nullability=True),
        kind="project",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=table.row_count,
        files=(),
    )


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


def _protos(fields: Sequence[pa.Field], *, first_id: int) -> list[bytes]:
    # Lance numbers the fields of a schema from zero on, so as many others stand before the first of ours.
    padding = [pa.field(f"padding-{number}", pa.int8()) for number in range(first_id)]
    return _parts(LanceSchema.from_pyarrow(pa.schema([*padding, *fields])))[1][first_id:]


def _refuse_names(table: Table, names: Sequence[str], *, taken: set[str]) -> None:
    if len(set(names)) != len(names) or taken & set(names):
        raise InternalError(f"a column name is given twice location={table.pin.location}")
