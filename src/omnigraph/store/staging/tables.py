"""Whole tables: creating, replacing, restoring and rewriting them, and changing their columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.staging.change import carry_row_ids, deletion_files, field_ids, field_numbers, sentinel_of
from omnigraph.store.staging.columns import MadeColumns, holds_all, rows_in_columns
from omnigraph.store.staging.commit import Origin, StagedCommit, data_files, moved_since, staged_at, staged_on
from omnigraph.store.tables.pinned import KEY, ROW_ADDRESS, ROW_ID
from omnigraph.store.tables.pins import TablePin, fragment_from_json, with_field_numbers
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.tail import BlockKey, block_of_rows
from omnigraph.store.tables.writing import BLOB_ENCODING, blob_columns, fit, write_into, write_new, write_over
from omnigraph.store.translate import translating

CREATE = "create"


def stage_create(
    datasets: DatasetStore,
    location: str,
    schema: pa.Schema,
    rows: pa.Table | None = None,
    *,
    operation_id: str,
    runtime: Runtime,
) -> StagedCommit:
    """Stage version 1 of a table that does not exist.

    Raises:
        AlreadyExistsError: a table is there.
    """
    before = TablePin(location=location, branch=None, version=0)
    new, lance_schema = list[FragmentMetadata](), LanceSchema.from_pyarrow(schema)
    if rows is not None:
        new, lance_schema = write_new(datasets.handles, location, rows, schema)
        fields = tuple((field.id(), field.name()) for field in lance_schema.fields())
        _remember(datasets, new, fit(rows, schema), fields)
    return staged_at(
        before,
        LanceOperation.Overwrite(lance_schema, new),
        kind=CREATE,
        origin=Origin(operation_id=operation_id, runtime=runtime),
        row_count=0 if rows is None else rows.num_rows,
        files=tuple(f"{location}/{file}" for file in data_files(new)),
    )


def stage_overwrite(
    table: Table, rows: pa.Table, schema: pa.Schema | None = None, *, operation_id: str, runtime: Runtime
) -> StagedCommit:
    """Stage a version that holds exactly ``rows``, possibly none; a strict overwrite, which drops all indexes.

    Args:
        table: the version to build on.
        rows: everything the table will hold.
        schema: its columns, when they change; field ids are then given out afresh.
        operation_id: written into the commit, so that recovery knows it as ours.
        runtime: where the commit's uuid comes from.
    """
    table.datasets.handles.check_process()
    new = write_into(table.handle, rows, table.pin.location, schema=schema)
    lance_schema = table.handle.lance_schema if schema is None else LanceSchema.from_pyarrow(schema)
    fields = tuple((field.id(), field.name()) for field in lance_schema.fields())
    _remember(table.datasets, new, fit(rows, table.schema if schema is None else schema), fields)
    return staged_on(
        table,
        LanceOperation.Overwrite(lance_schema, new),
        kind="overwrite",
        origin=Origin(operation_id=operation_id, runtime=runtime),
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


def stage_columns(
    table: Table,
    schema: pa.Schema,
    origins: Mapping[str, str],
    fills: Mapping[str, pa.Scalar] = MappingProxyType({}),
    *,
    upserts: pa.Table | None = None,
    deletes: Sequence[str] | pa.Array = (),
    operation_id: str,
    runtime: Runtime,
) -> StagedCommit:
    """Stage a version that has exactly the columns of ``schema``; row ids and row order stay.

    Nothing is uploaded but columns whose values change: those of another type, and those that are filled. Indexes of
    the other columns that go on stay in use under their names; the rest leave with their columns.

    Args:
        table: the version to build on.
        schema: the columns afterwards. One that goes on keeps its type or gets one that holds all of its values; that
            no row holds null in a column that becomes required is for the caller to know.
        origins: for every column that goes on, its name in ``table``. The others are added, null in every row.
        fills: for columns of ``schema``, what rows hold that would hold null.
        upserts: whole rows in these columns, with distinct ids, that are written in the same commit. Fragments that
            they or the deletes touch are written anew, and the version has no indexes then.
        deletes: ids to delete in the same commit.
        operation_id: written into the commit, so that recovery knows it as ours.
        runtime: where the commit's uuid comes from.
    """
    rewritten: Rewritten | None = None
    if upserts is not None or len(deletes):
        rewritten = Rewritten.of(table, schema, origins, fills, upserts, deletes)
    _refuse_impossible(table, schema, origins, {**fills, **({} if rewritten is None else _unfilled(schema))})
    made = MadeColumns.of(table, schema, origins, fills, () if rewritten is None else rewritten.replaced)
    metadata, messages = _parts(table.handle.lance_schema)
    groups = {
        name: (field_id, group)
        for (field_id, name), group in zip(table.fields, _grouped(table.handle.lance_schema, messages), strict=True)
    }
    protos: list[bytes] = []
    following = made.next_field_id
    with translating("change columns", table.pin.location):
        for field in schema:
            if field.name in made.field_ids:
                protos += _protos(field, made.field_ids[field.name])
            elif field.name in origins:
                field_id, group = groups[origins[field.name]]
                stored = table.handle.schema.field(origins[field.name])
                wanted = _restated(stored, table.schema.field(origins[field.name]), field)
                protos += group if wanted.equals(stored, check_metadata=True) else _protos(wanted, field_id)
            else:
                added = _protos(field, following)
                protos += added
                following += len(added)
        lance_schema = LanceSchema._from_protos(metadata, *protos)  # noqa: SLF001 - the only way that keeps field ids
    origin = Origin(operation_id=operation_id, runtime=runtime)
    if rewritten is not None:
        return _stage_rewritten(table, schema, lance_schema, made, rewritten, origin)
    if made.fragments:
        return staged_on(
            table,
            LanceOperation.Merge(list(made.fragments), lance_schema),
            kind="columns",
            origin=origin,
            row_count=table.row_count,
            files=made.files,
        )
    keeps_nullability = all(
        table.schema.field(old).nullable == schema.field(new).nullable for new, old in origins.items()
    )
    return staged_on(
        table,
        LanceOperation.Project(lance_schema, preserves_nullability=keeps_nullability),
        kind="project",
        origin=origin,
        row_count=table.row_count,
        files=(),
    )


def _unfilled(schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Whether rows lack a value is for whoever writes them to know; storage refuses one that does."""
    return {field.name: pa.scalar(None, field.type) for field in schema}


@record
class Rewritten:
    """The rows that a change of columns and rows at once has to write.

    Args:
        replaced: the fragments that go; all of their rows that stay are among ``rows``.
        rows: what to write, those that keep a row id first.
        row_ids: these row ids.
        row_count: how many rows the table has afterwards.
    """

    replaced: frozenset[int]
    rows: pa.Table
    row_ids: npt.NDArray[np.uint64]
    row_count: int

    @classmethod
    def of(
        cls,
        table: Table,
        schema: pa.Schema,
        origins: Mapping[str, str],
        fills: Mapping[str, pa.Scalar],
        upserts: pa.Table | None,
        deletes: Sequence[str] | pa.Array,
    ) -> Rewritten:
        """Read what has to be written again: a strict overwrite lists no fragment that has lost rows."""
        plain = pa.schema([pa.field(field.name, field.type) for field in schema])
        written = plain.empty_table() if upserts is None else upserts.select(schema.names).cast(plain)
        ids = pa.concat_arrays([pa.array([], pa.string()), *written.column(KEY).chunks])
        leaving = deletes if isinstance(deletes, pa.Array) else pa.array(deletes, pa.string())
        found = table.lookup(pa.concat_arrays([ids, leaving]), ())
        touched = set(np.unique(found[ROW_ADDRESS].to_numpy() >> 32).tolist())
        # A blob is numbered by what was written of it, so that files of both kinds do not go together.
        is_whole = bool(table.blobs or blob_columns(schema))
        replaced = frozenset(
            item.metadata.id
            for item in table.fragments
            if is_whole or item.metadata.id in touched or item.metadata.deletion_file is not None
        )
        kept, row_ids = plain.empty_table(), np.array([], dtype=np.uint64)
        if replaced:
            stored = table.read([*table.schema.names, ROW_ID], fragment_ids=sorted(replaced))
            stored = stored.filter(pc.invert(pc.is_in(stored[KEY], value_set=pc.unique(found[KEY]))))
            kept = rows_in_columns(stored, schema, origins, fills).cast(plain)
            row_ids = stored[ROW_ID].to_numpy().astype(np.uint64)
        places = pc.index_in(ids, value_set=pa.concat_arrays([pa.array([], pa.string()), *found[KEY].chunks]))
        is_known = pc.is_valid(places)
        known = found[ROW_ID].to_numpy().astype(np.uint64)[places.drop_null().to_numpy().astype(np.int64)]
        keeping, carried = pa.concat_tables([kept, written.filter(is_known)]), np.concatenate([row_ids, known])
        order = np.argsort(carried, kind="stable")
        rows = pa.concat_tables([keeping.take(pa.array(order)), written.filter(pc.invert(is_known))])
        inserted = written.num_rows - len(known)
        return cls(
            replaced=replaced,
            rows=rows.combine_chunks(),
            row_ids=carried[order],
            row_count=table.row_count + inserted - (found.num_rows - len(known)),
        )


def _stage_rewritten(
    table: Table,
    schema: pa.Schema,
    lance_schema: LanceSchema,
    made: MadeColumns,
    rewritten: Rewritten,
    origin: Origin,
) -> StagedCommit:
    """Stage the fragments that no row leaves as they are, with their new columns, and the other rows written anew."""
    fresh, written_schema = write_over(table.handle, rewritten.rows, table.pin.location, schema)
    kept = [item.metadata for item in table.fragments if item.metadata.id not in rewritten.replaced]
    if made.fragments:
        kept = list(made.fragments)
    if kept:
        numbers = dict(zip(field_numbers(written_schema), field_numbers(lance_schema), strict=True))
        fresh = [with_field_numbers(fragment, numbers) for fragment in fresh]
    else:
        lance_schema = written_schema
    fresh = carry_row_ids(fresh, rewritten.row_ids)
    return staged_on(
        table,
        LanceOperation.Overwrite(lance_schema, [*kept, *fresh]),
        kind="columns",
        origin=origin,
        row_count=rewritten.row_count,
        files=(*made.files, *data_files(fresh)),
    )


def _refuse_impossible(
    table: Table, schema: pa.Schema, origins: Mapping[str, str], fills: Mapping[str, pa.Scalar]
) -> None:
    location = table.pin.location
    names = schema.names
    if len(set(names)) != len(names) or len(set(origins.values())) != len(origins):
        raise InternalError(f"a column of '{location}' occurs twice")
    if missing := sorted((set(origins) - set(names)) | (set(origins.values()) - set(table.schema.names))):
        raise InternalError(f"'{location}' has no columns {missing}")
    for field in schema:
        if field.name not in origins:
            if not field.nullable and field.name not in fills and table.fragments:
                raise InternalError(f"added column '{field.name}' of '{location}' must be nullable")
        elif field.type != (stored := table.schema.field(origins[field.name]).type) and not holds_all(
            field.type, stored
        ):
            raise InternalError(f"column '{field.name}' of '{location}' cannot change its type")


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


def stage_written(
    table: Table,
    fragments: Sequence[str],
    *,
    shrunk: Sequence[str] = (),
    removed: Sequence[int] = (),
    operation_id: str,
    runtime: Runtime,
) -> StagedCommit | None:
    """Stage uploaded rows on top of a table; None when nothing changes.

    Args:
        table: the version to build on. Without ``shrunk`` and ``removed`` it may be a later one than the rows were
            written for, as long as it is on the same branch and has the same columns.
        fragments: the uploaded rows, as JSON texts of their fragments.
        shrunk: fragments of the table that lose rows, with their longer deletion lists.
        removed: fragments of the table that lose all of their rows.
        operation_id: written into the commit, so that recovery knows it as ours.
        runtime: where the commit's uuid comes from.

    Raises:
        TableMovedError: the table has no such fragment to shrink or to remove.
    """
    table.datasets.handles.check_process()
    origin = Origin(operation_id=operation_id, runtime=runtime)
    new, updated = _read(table, fragments), _read(table, shrunk)
    if not new and not updated and not removed:
        return None
    before = {fragment.metadata.id: fragment.metadata for fragment in table.fragments}
    touched = {*removed, *(item.id for item in updated)}
    if not touched <= before.keys():
        raise moved_since(table.pin, table, "a fragment to shrink was not found")
    leaving = sum(before[number].num_rows for number in touched) - sum(item.num_rows for item in updated)
    operation: LanceOperation.BaseOperation
    if table.fragments:
        sentinel = sentinel_of(table)
        operation = LanceOperation.Update(
            removed_fragment_ids=list(removed),
            updated_fragments=updated if sentinel.id in touched else [sentinel, *updated],
            new_fragments=new,
            fields_for_preserving_frag_bitmap=field_ids(table),
            update_mode="rewrite_rows",
        )
    else:
        # Without a fragment there is no sentinel; a Merge conflicts with every other data commit instead.
        operation = LanceOperation.Merge(new, table.handle.lance_schema)
    return staged_on(
        table,
        operation,
        kind="change",
        origin=origin,
        row_count=table.row_count + sum(item.num_rows for item in new) - leaving,
        files=(*data_files(new), *deletion_files(updated)),
    )


def stage_written_whole(table: Table, fragments: Sequence[str], *, operation_id: str, runtime: Runtime) -> StagedCommit:
    """Stage a version that holds exactly the uploaded rows, possibly none; drops all indexes."""
    table.datasets.handles.check_process()
    new = _read(table, fragments)
    return staged_on(
        table,
        LanceOperation.Overwrite(table.handle.lance_schema, new),
        kind="overwrite",
        origin=Origin(operation_id=operation_id, runtime=runtime),
        row_count=sum(item.num_rows for item in new),
        files=data_files(new),
    )


def _read(table: Table, fragments: Sequence[str]) -> list[FragmentMetadata]:
    with translating("read a fragment's description", table.pin.location):
        return [fragment_from_json(json.loads(fragment)) for fragment in fragments]


_Undo = tuple[LanceOperation.BaseOperation, list[FragmentMetadata]]


def stage_undo(pinned: Table, head: Table, *, operation_id: str, runtime: Runtime) -> StagedCommit:
    """Stage the pinned content on top of ``head``.

    Where the head still has some fragments of the pinned version, and its columns, indexes stay in use.
    Otherwise the pinned fragments are listed by a strict overwrite, which drops indexes. Only fragments with deleted
    rows that left the table are uploaded again.
    """
    if (pinned.pin.location, pinned.pin.branch) != (head.pin.location, head.pin.branch):
        raise InternalError(f"an undo needs two versions of one branch of '{head.pin.location}'")
    operation, rewritten = _by_update(pinned, head) or _by_overwrite(pinned)
    return staged_on(
        head,
        operation,
        kind="undo",
        origin=Origin(operation_id=operation_id, runtime=runtime),
        row_count=pinned.row_count,
        files=data_files(rewritten),
    )


def _by_update(pinned: Table, head: Table) -> _Undo | None:
    before = {fragment.metadata.id: fragment.metadata for fragment in pinned.fragments}
    after = {fragment.metadata.id: fragment.metadata for fragment in head.fragments}
    same_columns = pinned.fields == head.fields and pinned.schema.equals(head.schema, check_metadata=True)
    # A compaction may give out the number of a fragment that had left, so only the files tell what is the same.
    shared = {number for number in before.keys() & after.keys() if before[number].files == after[number].files}
    if not same_columns or not shared:
        return None
    updated = [before[number] for number in sorted(shared) if before[number].to_json() != after[number].to_json()]
    removed = [number for number in after if number not in shared]
    sentinel = sentinel_of(head)
    if sentinel.id not in removed and all(item.id != sentinel.id for item in updated):
        updated.append(before[sentinel.id])
    # Fragments that had left come back with their row ids; only their row versions start anew. They are numbered
    # afresh, because an index of the head may claim their old number for other rows.
    left = [item for number, item in before.items() if number not in shared]
    if left and any(index.kind.upper() == "INVERTED" for index in head.indexes()):
        # They would look born later than the index that holds their words, which an extension of it relies on.
        return None
    back, rewritten = _listable(pinned, left)
    back = [replace(fragment, id=0) for fragment in back]
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=back,
        fields_for_preserving_frag_bitmap=field_ids(head),
        update_mode="rewrite_rows",
    )
    return operation, rewritten


def _by_overwrite(pinned: Table) -> _Undo:
    fragments, rewritten = _listable(pinned, [fragment.metadata for fragment in pinned.fragments])
    return LanceOperation.Overwrite(pinned.handle.lance_schema, fragments), rewritten


def _listable(
    pinned: Table, fragments: Sequence[FragmentMetadata]
) -> tuple[list[FragmentMetadata], list[FragmentMetadata]]:
    """Return fragments that a later version can list as its own, and those of them that had to be written.

    A deletion file is found by the id of its fragment, which a fragment that comes back may not keep, and an
    overwrite takes no fragment with deletions at all. So the living rows of such a fragment are written again.
    """
    listed: list[FragmentMetadata] = []
    rewritten: list[FragmentMetadata] = []
    for fragment in fragments:
        if fragment.deletion_file is None:
            listed.append(fragment)
            continue
        rows = pinned.read([*pinned.schema.names, ROW_ID], fragment_ids=[fragment.id])
        written = write_into(pinned.handle, rows.drop_columns([ROW_ID]), pinned.pin.location)
        fresh = carry_row_ids(written, rows[ROW_ID].to_numpy())
        listed += fresh
        rewritten += fresh
    return listed, rewritten
