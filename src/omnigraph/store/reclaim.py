"""Taking versions of a table away for good, named one by one: never what is newest, never what is spared."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.runtime import Counters
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.metering import metered
from omnigraph.store.pins import TablePin
from omnigraph.store.translate import translating


def reclaim_older(
    datasets: DatasetStore, pin: TablePin, spared: Collection[int], counters: Counters
) -> tuple[int, ...]:
    """Remove the versions before ``pin`` on its line, with the files that only they need; return their numbers.

    Files that another line of the table shares stay. Running it again, or after somebody else did, is harmless.

    Args:
        datasets: the datasets of the graph.
        pin: the oldest version that stays.
        spared: older versions that stay too.
        counters: where the calls go.

    Raises:
        VersionMissingError: ``pin`` does not exist.
    """
    handle = datasets.handles.open(pin, counters)
    with translating("reclaim versions", pin.location), metered(handle, counters):
        found = sorted(int(entry["version"]) for entry in handle.versions())
        doomed = [version for version in found if version < pin.version and version not in spared]
        if doomed:
            handle.cleanup_old_versions(versions=doomed, error_if_tagged_old_versions=False)
    return tuple(doomed)
