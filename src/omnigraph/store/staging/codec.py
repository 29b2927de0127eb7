"""Lance operations as JSON, field by field: plans outlive the process that made them, so nothing is pickled."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Index, IndexFile
from lance.schema import LanceSchema

from omnigraph.errors import StorageCorruptError, StorageFault
from omnigraph.store.tables.pins import fragment_from_json, fragment_to_json


def operation_to_json(operation: LanceOperation.BaseOperation) -> dict[str, Any]:
    """Return an operation as JSON values, tagged with its name."""
    match operation:
        case LanceOperation.Update():
            return {
                "op": "update",
                "removed": list(operation.removed_fragment_ids),
                "updated": _fragments_to_json(operation.updated_fragments),
                "new": _fragments_to_json(operation.new_fragments),
                "preserving": list(operation.fields_for_preserving_frag_bitmap),
                "mode": operation.update_mode,
            }
        case LanceOperation.Overwrite():
            return {
                "op": "overwrite",
                "schema": _schema_to_json(operation.new_schema),
                "fragments": _fragments_to_json(operation.fragments),
            }
        case LanceOperation.Merge():
            return {
                "op": "merge",
                "schema": _schema_to_json(operation.schema),
                "fragments": _fragments_to_json(operation.fragments),
            }
        case LanceOperation.Project():
            return {
                "op": "project",
                "schema": _schema_to_json(operation.schema),
                "preserves_nullability": operation.preserves_nullability,
            }
        case LanceOperation.CreateIndex():
            return {
                "op": "create_index",
                "new": [index_to_json(index) for index in operation.new_indices],
                "removed": [index_to_json(index) for index in operation.removed_indices],
            }
        case LanceOperation.Rewrite():
            groups = [
                {"old": _fragments_to_json(group.old_fragments), "new": _fragments_to_json(group.new_fragments)}
                for group in operation.groups
            ]
            return {"op": "rewrite", "groups": groups}
        case _:
            raise _unknown(type(operation).__name__)


def operation_from_json(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    """Rebuild what :func:`operation_to_json` gave.

    Raises:
        StorageCorruptError: the data names no operation of ours, or lacks a part of one.
    """
    decode = _DECODERS.get(data.get("op", ""))
    if decode is None:
        raise _unknown(str(data.get("op")))
    try:
        return decode(data)
    except (KeyError, TypeError, ValueError) as error:
        details = StorageFault(doing="read a staged operation", location="", reason=f"{data['op']}: {error}")
        raise StorageCorruptError("a staged operation cannot be read", details=details) from error


def index_to_json(index: Index) -> dict[str, Any]:
    """Return one segment of an index as JSON values."""
    details = index.index_details
    return {
        "uuid": index.uuid,
        "name": index.name,
        "fields": list(index.fields),
        "dataset_version": index.dataset_version,
        "fragment_ids": sorted(index.fragment_ids),
        "index_version": index.index_version,
        "created_at": None if index.created_at is None else index.created_at.isoformat(),
        "base_id": index.base_id,
        "files": None if index.files is None else [[file.path, file.size_bytes] for file in index.files],
        "details": None if details is None else [details[0], base64.b64encode(details[1]).decode()],
        "covering_fields": list(index.covering_fields),
    }


def index_from_json(data: Mapping[str, Any]) -> Index:
    """Rebuild what :func:`index_to_json` gave."""
    details = data["details"]
    return Index(
        uuid=data["uuid"],
        name=data["name"],
        fields=list(data["fields"]),
        dataset_version=data["dataset_version"],
        fragment_ids=Bitmap(data["fragment_ids"]),
        index_version=data["index_version"],
        created_at=None if data["created_at"] is None else datetime.fromisoformat(data["created_at"]),
        base_id=data["base_id"],
        files=None if data["files"] is None else [IndexFile(path, size) for path, size in data["files"]],
        index_details=None if details is None else (details[0], base64.b64decode(details[1])),
        covering_fields=list(data["covering_fields"]),
    )


def _update(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    return LanceOperation.Update(
        removed_fragment_ids=list(data["removed"]),
        updated_fragments=_fragments_from_json(data["updated"]),
        new_fragments=_fragments_from_json(data["new"]),
        fields_for_preserving_frag_bitmap=list(data["preserving"]),
        update_mode=data["mode"],
    )


def _overwrite(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    return LanceOperation.Overwrite(_schema_from_json(data["schema"]), _fragments_from_json(data["fragments"]))


def _merge(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    return LanceOperation.Merge(_fragments_from_json(data["fragments"]), _schema_from_json(data["schema"]))


def _project(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    return LanceOperation.Project(
        _schema_from_json(data["schema"]), preserves_nullability=bool(data["preserves_nullability"])
    )


def _create_index(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    return LanceOperation.CreateIndex(
        [index_from_json(index) for index in data["new"]], [index_from_json(index) for index in data["removed"]]
    )


def _rewrite(data: Mapping[str, Any]) -> LanceOperation.BaseOperation:
    groups = [
        LanceOperation.RewriteGroup(_fragments_from_json(group["old"]), _fragments_from_json(group["new"]))
        for group in data["groups"]
    ]
    return LanceOperation.Rewrite(groups, [])


_DECODERS: Mapping[str, Callable[[Mapping[str, Any]], LanceOperation.BaseOperation]] = {
    "update": _update,
    "overwrite": _overwrite,
    "merge": _merge,
    "project": _project,
    "create_index": _create_index,
    "rewrite": _rewrite,
}


def _fragments_to_json(fragments: Iterable[Any]) -> list[dict[str, Any]]:
    return [fragment_to_json(fragment) for fragment in fragments]


def _fragments_from_json(data: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [fragment_from_json(fragment) for fragment in data]


def _schema_to_json(schema: Any) -> dict[str, Any]:
    lance_schema = schema if isinstance(schema, LanceSchema) else LanceSchema.from_pyarrow(schema)
    # Field ids live only in Lance's own field messages, which the pickling hook hands out.
    parts: tuple[Any, ...] = tuple(lance_schema.__reduce__()[1])
    metadata, *fields = parts
    return {"metadata": metadata, "fields": [base64.b64encode(field).decode() for field in fields]}


def _schema_from_json(data: Mapping[str, Any]) -> LanceSchema:
    return LanceSchema._from_protos(data["metadata"], *map(base64.b64decode, data["fields"]))  # noqa: SLF001 - see above


def _unknown(name: str) -> StorageCorruptError:
    details = StorageFault(doing="read a staged operation", location="", reason=f"unknown operation {name}")
    return StorageCorruptError(f"not a staged operation of ours: {name}", details=details)
