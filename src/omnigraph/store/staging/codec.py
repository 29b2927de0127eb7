"""Lance operations as JSON, field by field: plans outlive the process that made them, so nothing is pickled.

Each operation is one record, whose parts are written in their order and under their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Index, IndexFile
from lance.schema import LanceSchema

from omnigraph.errors import StorageCorruptError, StorageFault
from omnigraph.store.tables.pins import fragment_from_json, fragment_to_json

# A fragment is described by Lance itself.
_Fragments = list[dict[str, Any]]


class StagedSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schema with the ids of its fields, each of which is a message of Lance."""

    metadata: str
    fields: list[bytes]

    @classmethod
    def of(cls, schema: Any) -> StagedSchema:
        """Return the record of a schema of Lance or Arrow."""
        lance_schema = schema if isinstance(schema, LanceSchema) else LanceSchema.from_pyarrow(schema)
        # Field ids live only in Lance's own field messages, which the pickling hook hands out.
        parts: tuple[Any, ...] = tuple(lance_schema.__reduce__()[1])
        metadata, *fields = parts
        return cls(metadata=metadata, fields=fields)

    def to_lance(self) -> LanceSchema:
        """Return the schema."""
        return LanceSchema._from_protos(self.metadata, *self.fields)  # noqa: SLF001 - see above


class StagedIndexFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of an index; written as a pair."""

    path: str
    size_bytes: int


class StagedIndexDetails(msgspec.Struct, frozen=True, array_like=True):
    """What the kind of an index has to say, as the message that Lance made of it; written as a pair."""

    kind: str
    message: bytes


class StagedIndex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One segment of an index."""

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: list[int]
    index_version: int
    created_at: str | None
    base_id: int | None
    files: list[StagedIndexFile] | None
    details: StagedIndexDetails | None
    covering_fields: list[int]

    @classmethod
    def of(cls, index: Index) -> StagedIndex:
        """Return the record of a segment."""
        files, details = index.files, index.index_details
        return cls(
            uuid=index.uuid,
            name=index.name,
            fields=list(index.fields),
            dataset_version=index.dataset_version,
            fragment_ids=sorted(index.fragment_ids),
            index_version=index.index_version,
            created_at=None if index.created_at is None else index.created_at.isoformat(),
            base_id=index.base_id,
            files=None if files is None else [StagedIndexFile(file.path, file.size_bytes) for file in files],
            details=None if details is None else StagedIndexDetails(*details),
            covering_fields=list(index.covering_fields),
        )

    def to_lance(self) -> Index:
        """Return the segment."""
        files, details = self.files, self.details
        return Index(
            uuid=self.uuid,
            name=self.name,
            fields=self.fields,
            dataset_version=self.dataset_version,
            fragment_ids=Bitmap(self.fragment_ids),
            index_version=self.index_version,
            created_at=None if self.created_at is None else datetime.fromisoformat(self.created_at),
            base_id=self.base_id,
            files=None if files is None else [IndexFile(file.path, file.size_bytes) for file in files],
            index_details=None if details is None else (details.kind, details.message),
            covering_fields=self.covering_fields,
        )


class StagedUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="update"):
    """Rows that are written, and fragments that lose some or all of theirs."""

    removed: list[int]
    updated: _Fragments
    new: _Fragments
    preserving: list[int]
    mode: str

    def to_lance(self) -> LanceOperation.BaseOperation:
        """Return the operation."""
        return LanceOperation.Update(
            removed_fragment_ids=self.removed,
            updated_fragments=_from_json(self.updated),
            new_fragments=_from_json(self.new),
            fields_for_preserving_frag_bitmap=self.preserving,
            update_mode=self.mode,
        )


class StagedOverwrite(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="overwrite"
):
    """Another content."""

    schema: StagedSchema
    fragments: _Fragments

    def to_lance(self) -> LanceOperation.BaseOperation:
        """Return the operation."""
        return LanceOperation.Overwrite(self.schema.to_lance(), _from_json(self.fragments))


class StagedMerge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="merge"):
    """The same rows with other columns."""

    schema: StagedSchema
    fragments: _Fragments

    def to_lance(self) -> LanceOperation.BaseOperation:
        """Return the operation."""
        return LanceOperation.Merge(_from_json(self.fragments), self.schema.to_lance())


class StagedProject(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="project"
):
    """The same files under another schema."""

    schema: StagedSchema
    preserves_nullability: bool

    def to_lance(self) -> LanceOperation.BaseOperation:
        """Return the operation."""
        return LanceOperation.Project(self.schema.to_lance(), preserves_nullability=self.preserves_nullability)


class StagedIndexing(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="create_index"
):
    """Segments of indexes that come and go."""

    new: list[StagedIndex]
    removed: list[StagedIndex]

    def to_lance(self) -> LanceOperation.BaseOperation:
        """Return the operation."""
        return LanceOperation.CreateIndex(
            [index.to_lance() for index in self.new], [index.to_lance() for index in self.removed]
        )


class StagedGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fragments and what they are rewritten to."""

    old: _Fragments
    new: _Fragments


class StagedRewrite(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", tag="rewrite"
):
    """The same rows in other fragments."""

    groups: list[StagedGroup]

    def to_lance(self) -> LanceOperation.BaseOperation:
        """Return the operation."""
        groups = [LanceOperation.RewriteGroup(_from_json(group.old), _from_json(group.new)) for group in self.groups]
        return LanceOperation.Rewrite(groups, [])


_Staged = StagedUpdate | StagedOverwrite | StagedMerge | StagedProject | StagedIndexing | StagedRewrite
# Taken apart before any thread needs them: msgspec does not stand several that meet a type first.
msgspec.json.Decoder(StagedUpdate | StagedOverwrite | StagedMerge | StagedProject | StagedIndexing | StagedRewrite)


def operation_to_json(operation: LanceOperation.BaseOperation) -> dict[str, Any]:
    """Return an operation as JSON values, tagged with its name."""
    data: dict[str, Any] = msgspec.to_builtins(_staged(operation))
    return data


def operation_from_json(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    """Rebuild what :func:`operation_to_json` gave.

    Raises:
        StorageCorruptError: the data names no operation of ours, or lacks a part of one.
    """
    try:
        staged: _Staged = msgspec.convert(data, _Staged)
        return staged.to_lance()
    except (KeyError, TypeError, ValueError) as error:
        details = StorageFault(doing="read a staged operation", location="", reason=f"{data.get('op')}: {error}")
        raise StorageCorruptError("a staged operation cannot be read", details=details) from error


def index_to_json(index: Index) -> dict[str, Any]:
    """Return one segment of an index as JSON values."""
    data: dict[str, Any] = msgspec.to_builtins(StagedIndex.of(index))
    return data


def index_from_json(data: Mapping[str, Any]) -> Index:
    """Rebuild what :func:`index_to_json` gave."""
    return msgspec.convert(data, StagedIndex).to_lance()


def _staged(operation: LanceOperation.BaseOperation) -> _Staged:
    match operation:
        case LanceOperation.Update():
            return StagedUpdate(
                removed=list(operation.removed_fragment_ids),
                updated=_to_json(operation.updated_fragments),
                new=_to_json(operation.new_fragments),
                preserving=list(operation.fields_for_preserving_frag_bitmap),
                mode=operation.update_mode,
            )
        case LanceOperation.Overwrite():
            return StagedOverwrite(
                schema=StagedSchema.of(operation.new_schema), fragments=_to_json(operation.fragments)
            )
        case LanceOperation.Merge():
            return StagedMerge(schema=StagedSchema.of(operation.schema), fragments=_to_json(operation.fragments))
        case LanceOperation.Project():
            return StagedProject(
                schema=StagedSchema.of(operation.schema), preserves_nullability=operation.preserves_nullability
            )
        case LanceOperation.CreateIndex():
            return StagedIndexing(
                new=[StagedIndex.of(index) for index in operation.new_indices],
                removed=[StagedIndex.of(index) for index in operation.removed_indices],
            )
        case LanceOperation.Rewrite():
            return StagedRewrite(
                groups=[
                    StagedGroup(old=_to_json(group.old_fragments), new=_to_json(group.new_fragments))
                    for group in operation.groups
                ]
            )
        case _:
            name = type(operation).__name__
            details = StorageFault(doing="stage an operation", location="", reason=f"unknown operation {name}")
            raise StorageCorruptError(f"not a staged operation of ours: {name}", details=details)


def _to_json(fragments: Iterable[Any]) -> _Fragments:
    return [fragment_to_json(fragment) for fragment in fragments]


def _from_json(fragments: _Fragments) -> list[Any]:
    return [fragment_from_json(fragment) for fragment in fragments]
