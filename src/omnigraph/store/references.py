"""Which files a version of a dataset needs.

Files are known by their names alone: each holds a random number, and a branch lists files of the line that it came
from under the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.fragments import data_paths
from omnigraph.store.metering import metered
from omnigraph.store.pins import TablePin
from omnigraph.store.translate import translating


@record
class References:
    """The names of the files that something needs: data files, deletion files, and the identities of indexes."""

    data: frozenset[str] = frozenset()
    deletions: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()

    @classmethod
    def union(cls, many: Sequence[References]) -> References:
        """Return what several need together."""
        return cls(
            data=frozenset().union(*(one.data for one in many)),
            deletions=frozenset().union(*(one.deletions for one in many)),
            indexes=frozenset().union(*(one.indexes for one in many)),
        )


def references_of(datasets: DatasetStore, pin: TablePin, counters: Counters) -> References:
    """Return what one version needs; reads its description and nothing else.

    Raises:
        TableMissingError, VersionMissingError: there is no such version.
    """
    handle = datasets.handles.open_apart(pin, counters)
    with translating("read what a version needs", pin.location, handle=handle), metered(handle, counters):
        fragments = [fragment.metadata for fragment in handle.get_fragments()]
        segments = [segment.uuid for index in handle.describe_indices() for segment in index.segments]
    data, deletions = set[str](), set[str]()
    for fragment in fragments:
        # A data file and the folder of its larger blobs share their name.
        data.update(path.rpartition("/")[2].removesuffix(".lance") for path in data_paths(fragment))
        deleted: dict[str, Any] | None = fragment.to_json().get("deletion_file")
        if deleted:
            deletions.add(f"{fragment.id}-{deleted['read_version']}-{deleted['id']}")
    return References(data=frozenset(data), deletions=frozenset(deletions), indexes=frozenset(segments))
