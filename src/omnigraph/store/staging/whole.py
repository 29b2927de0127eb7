"""Whole tables: creating one, and replacing everything one holds."""

from __future__ import annotations

import pyarrow as pa
from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.runtime import Counters, World
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.pins import TablePin
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, staged_at, staged_on
from omnigraph.store.table import Table
from omnigraph.store.tail import BlockKey, block_of_rows
from omnigraph.store.writing import fit, write_into, write_new

CREATE = "create"


def stage_create(
    datasets: DatasetStore,
    location: str,
    schema: pa.Schema,
    rows: pa.Table | None = None,
    *,
    operation_id: str,
    world: World,
    counters: Counters,
) -> StagedCommit:
    """Stage version 1 of a table that does not exist.

    Raises:
        AlreadyExistsError: a table is there.
    """
    before = TablePin(location=location, branch=None, version=0)
    new, lance_schema = list[FragmentMetadata](), LanceSchema.from_pyarrow(schema)
    if rows is not None:
        new, lance_schema = write_new(datasets.handles, location, rows, schema, counters)
        fields = tuple((field.id(), field.name()) for field in lance_schema.fields())
        _remember(datasets, new, fit(rows, schema), fields)
    return staged_at(
        before,
        LanceOperation.Overwrite(lance_schema, new),
        kind=CREATE,
        origin=Origin(operation_id=operation_id, world=world),
        row_count=0 if rows is None else rows.num_rows,
        files=tuple(f"{location}/{file}" for file in data_files(new)),
    )


def stage_overwrite(
    table: Table,
    rows: pa.Table,
    schema: pa.Schema | None = None,
    *,
    operation_id: str,
    world: World,
    counters: Counters,
) -> StagedCommit:
    """Stage a version that holds exactly ``rows``, possibly none; a strict overwrite, which drops all indexes.

    Args:
        table: the version to build on.
        rows: everything the table will hold.
        schema: its columns, when they change; field ids are then given out afresh.
        operation_id: written into the commit, so that recovery knows it as ours.
        world: where the commit's uuid comes from.
        counters: where the calls go.
    """
    table.datasets.handles.check_process()
    new = write_into(table.handle, rows, table.pin.location, counters, schema=schema)
    lance_schema = table.handle.lance_schema if schema is None else LanceSchema.from_pyarrow(schema)
    fields = tuple((field.id(), field.name()) for field in lance_schema.fields())
    _remember(table.datasets, new, fit(rows, table.schema if schema is None else schema), fields)
    return staged_on(
        table,
        LanceOperation.Overwrite(lance_schema, new),
        kind="overwrite",
        origin=Origin(operation_id=operation_id, world=world),
        row_count=rows.num_rows,
        files=data_files(new),
    )


def _remember(
    datasets: DatasetStore, new: list[FragmentMetadata], rows: pa.Table, fields: tuple[tuple[int, str], ...]
) -> None:
    start = 0
    for fragment in new:
        block = block_of_rows(rows.slice(start, fragment.physical_rows))
        start += fragment.physical_rows
        if block is not None:
            datasets.tails.put(BlockKey.of(fragment, fields), block)
