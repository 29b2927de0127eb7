"""Value types: ids, names and references, valid by construction and free of any storage."""

from omnigraph.values.identity import CommitId, EntityId, IncarnationId, OperationId, PropertyId, TypeId
from omnigraph.values.names import MAIN, BranchName, TableKey, TableKind, TagName
from omnigraph.values.ulid import Ulid, is_ulid

__all__ = [
    "MAIN",
    "BranchName",
    "CommitId",
    "EntityId",
    "IncarnationId",
    "OperationId",
    "PropertyId",
    "TableKey",
    "TableKind",
    "TagName",
    "TypeId",
    "Ulid",
    "is_ulid",
]
