"""Which part of a graph an object belongs to, read from its key alone."""

from __future__ import annotations

import re
from typing import Final, Literal

ObjectClass = Literal[
    "manifest_version",
    "manifest_txn",
    "manifest_data",
    "table_version",
    "table_txn",
    "table_data",
    "table_deletion",
    "table_index",
    "sidecar",
    "ref",
    "audit",
    "other",
]

# The first pattern found in the key decides. The audit table and the manifest are Lance datasets too, so what is
# special about a dataset stands above what is common to all of them. A key may also be the prefix of a LIST, hence
# the ends that accept a bare directory.
_RULES: Final[tuple[tuple[str, ObjectClass], ...]] = (
    (r"(?:^|/)_graph_commit_recoveries\.lance(?:/|$)", "audit"),
    (r"(?:^|/)__recovery(?:/|$)", "sidecar"),
    (r"(?:^|/)_refs(?:/|$)", "ref"),
    (r"(?:^|/)__manifest/(?:.+/)?_versions(?:/|$)", "manifest_version"),
    (r"(?:^|/)__manifest/(?:.+/)?_transactions(?:/|$)", "manifest_txn"),
    (r"(?:^|/)__manifest/(?:.+/)?(?:data|_deletions|_indices)(?:/|$)", "manifest_data"),
    (r"(?:^|/)_versions(?:/|$)", "table_version"),
    (r"(?:^|/)_transactions(?:/|$)", "table_txn"),
    (r"(?:^|/)_deletions(?:/|$)", "table_deletion"),
    (r"(?:^|/)_indices(?:/|$)", "table_index"),
    (r"(?:^|/)data/(?:.+\.(?:lance|blob|bin))?$", "table_data"),
)
_COMPILED: Final = tuple((re.compile(pattern), object_class) for pattern, object_class in _RULES)


def classify_key(key: str) -> ObjectClass:
    """Return the class of the object stored under ``key``, or of the directory a LIST looks into.

    >>> classify_key("g/__manifest/tree/draft/_versions/1.manifest")
    'manifest_version'
    >>> classify_key("g/nodes/01J/data/a.lance")
    'table_data'
    """
    for pattern, object_class in _COMPILED:
        if pattern.search(key):
            return object_class
    return "other"
