"""What cleanup removes of merges: records that no history leads to, and marks on branches of which nothing is left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from omnigraph.engine.maintenance.retention import KeptVersions
from omnigraph.store.control import StoredObject
from omnigraph.store.inventory import Inventory
from omnigraph.txn.branches.records import DEPENDANTS_PREFIX
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.merged import MERGES_PREFIX, is_merge, merge_key

_RECORD = re.compile(r"[0-9A-Z]{26}\.[0-9]{1,18}\.json")


def unused_lineage(store: GraphStore, kept: Sequence[KeptVersions], inventory: Inventory) -> Iterator[StoredObject]:
    """Yield records of merges and marks that nothing needs; how old they are is for the caller to look at.

    Records stay as long as the merge is in a history, as its commit does; only attempts that were not published leave
    some behind. What merged branches have merged themselves is found only by reading records, so these are read when
    there is one that no live branch names.
    """
    merges = [made.merge for item in kept for made in item.history.own if made.merge is not None]
    named = {merge_key(merge.id, merge.manifest_version) for merge in merges}
    unnamed = [
        item
        for item in inventory.below(MERGES_PREFIX)
        if item.key not in named and _RECORD.fullmatch(item.key.rpartition("/")[2])
    ]
    if unnamed:
        inner = (one.commit for one in store.merges.iter_all(merges))
        named |= {merge_key(commit.id, commit.manifest_version) for commit in inner if is_merge(commit)}
    yield from (item for item in unnamed if item.key not in named)
    lines = {item.history.line.incarnation for item in kept}
    yield from (
        item for item in inventory.below(DEPENDANTS_PREFIX) if item.key.split("/")[1].rpartition("~")[2] not in lines
    )
