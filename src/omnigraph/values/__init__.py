"""Value types: ids, names and references, valid by construction and free of any storage."""

from omnigraph.values.checks import (
    check_callable,
    check_choice,
    check_flag,
    check_flags,
    check_instance,
    check_number,
    check_path,
    check_text,
    check_whole,
    checked_names,
    checked_text,
    meant,
    unfit,
)
from omnigraph.values.identity import CommitId, EntityId, IncarnationId, OperationId, PropertyId, TypeId
from omnigraph.values.names import MAIN, BranchName, TableKey, TableKind, TagName
from omnigraph.values.refs import AncestorRef, BranchRef, CommitRef, Ref, TagRef, TimeRef, parse_ref
from omnigraph.values.sizes import size_of
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
    "check_callable",
    "check_choice",
    "check_flag",
    "check_flags",
    "check_instance",
    "check_number",
    "check_path",
    "check_text",
    "check_whole",
    "checked_names",
    "checked_text",
    "is_ulid",
    "meant",
    "parse_ref",
    "size_of",
    "unfit",
]
