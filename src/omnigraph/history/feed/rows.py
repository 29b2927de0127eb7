"""Changes as rows of Arrow tables, for frames and streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.history.diff.change import EntityChange, EntityImage
from omnigraph.records import record
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values.blobs import stored_blob

_CHUNK_ROWS = 4_096
_FIXED = [
    pa.field("op", pa.string(), nullable=False),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("type", pa.string(), nullable=False),
    pa.field("id", pa.string(), nullable=False),
    pa.field("commit", pa.string(), nullable=False),
    pa.field("sequence", pa.int64(), nullable=False),
    pa.field("actor", pa.string()),
    pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("changed", pa.list_(pa.string())),
]


@record
class ChangeRow:
    """One change of one commit; ``sequence`` orders the commits of a branch."""

    op: str
    kind: str
    type: str
    id: str
    commit: Commit
    sequence: int
    changed: tuple[str, ...] = ()
    before: EntityImage | None = None
    after: EntityImage | None = None

    @classmethod
    def of(cls, change: EntityChange, commit: Commit, sequence: int) -> ChangeRow:
        """Return the row of a change."""
        return cls(
            op=change.op,
            kind=change.kind,
            type=change.type.name,
            id=change.id,
            commit=commit,
            sequence=sequence,
            changed=change.changed,
            before=change.before,
            after=change.after,
        )


def change_columns(owner: NodeType | EdgeType | None) -> pa.Schema:
    """Return the columns of changes: of one type with its own columns before and after, of several as JSON text."""
    image = pa.string() if owner is None else pa.struct(list(_nullable(arrow_schema(owner))))
    return pa.schema([*_FIXED, pa.field("before", image), pa.field("after", image)])


def change_batches(rows: Iterable[ChangeRow], owner: NodeType | EdgeType | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow, a bounded number at a time."""
    schema = change_columns(owner)
    rest = iter(rows)
    while chunk := list(islice(rest, _CHUNK_ROWS)):
        columns = [
            pa.array([row.op for row in chunk], pa.string()),
            pa.array([row.kind for row in chunk], pa.string()),
            pa.array([row.type for row in chunk], pa.string()),
            pa.array([row.id for row in chunk], pa.string()),
            pa.array([str(row.commit.id) for row in chunk], pa.string()),
            pa.array([row.sequence for row in chunk], pa.int64()),
            pa.array([row.commit.actor for row in chunk], pa.string()),
            pa.array([row.commit.created_at_ms * 1000 for row in chunk], schema.field("time").type),
            pa.array([list(row.changed) for row in chunk], pa.list_(pa.string())),
            _images([row.before for row in chunk], chunk, owner),
            _images([row.after for row in chunk], chunk, owner),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _images(
    images: Sequence[EntityImage | None], rows: Sequence[ChangeRow], owner: NodeType | EdgeType | None
) -> pa.Array:
    if owner is None:
        texts = [None if image is None else msgspec.json.encode(image.to_json()).decode() for image in images]
        return pa.array(texts, pa.string())
    fields = list(_nullable(arrow_schema(owner)))
    columns = [
        pa.array([_value(image, row.id, field) for image, row in zip(images, rows, strict=True)], _plain(field.type))
        for field in fields
    ]
    arrays = [column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array([image is None for image in images]))


def _value(image: EntityImage | None, entity_id: str, field: pa.Field) -> Any:
    if image is None:
        return None
    if field.name == "id":
        return entity_id
    if image.endpoints is not None and field.name in {"src", "dst"}:
        return image.endpoints.source if field.name == "src" else image.endpoints.target
    value = image.properties.get(field.name)
    if value is not None and pa.types.is_large_binary(field.type):
        return stored_blob(value)
    return value


def _nullable(schema: pa.Schema) -> Iterator[pa.Field]:
    # An entity that was not there before, or is not there after, has no values at all.
    return (pa.field(field.name, field.type) for field in schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type in which an export writes values: days and milliseconds are counted."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_date64(kind) else kind
