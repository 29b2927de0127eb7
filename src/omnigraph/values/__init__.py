"""Value types: ids, names and references, valid by construction and free of any storage."""

from omnigraph.values.checks import (
    check_choice,
    check_flag,
    check_instance,
    check_number,
    check_text,
    check_texts,
    check_whole,
)
from omnigraph.values.identity import CommitId, EntityId, IncarnationId, OperationId, PropertyId, TypeId
from omnigraph.values.names import MAIN, BranchName, TableKey, TableKind, TagName
from omnigraph.values.refs import AncestorRef, BranchRef, CommitRef, Ref, TagRef, TimeRef, parse_ref
from omnigraph.values.sizes import size_of
from omnigraph.values.text import checked_text
from omnigraph.values.ulid import Ulid, is_ulid

__all__ = [
    "MAIN",
    "AncestorRef",
    "BranchName",
    "BranchRef",
    "CommitId",
    "CommitRef",
    "EntityId",
    "IncarnationId",
    "OperationId",
    "PropertyId",
    "Ref",
    "TableKey",
    "TableKind",
    "TagName",
    "TagRef",
    "TimeRef",
    "TypeId",
    "Ulid",
    "check_choice",
    "check_flag",
    "check_instance",
    "check_number",
    "check_text",
    "check_texts",
    "check_whole",
    "checked_text",
    "is_ulid",
    "parse_ref",
    "size_of",
]
