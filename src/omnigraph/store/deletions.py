"""Deletion files, read straight from a local disk.

Asking Lance which rows of a fragment are deleted lists every row that is not. A deletion file of the usual form is a
short list of places, so that reading it costs what was deleted and not what is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import FragmentMetadata

from omnigraph.runtime import Counters
from omnigraph.store.pinned import PinnedTable

_LISTED = "array"


def read_deletions(table: PinnedTable, fragment: FragmentMetadata, counters: Counters) -> npt.NDArray[np.uint32] | None:
    """Return the places of a fragment's deleted rows, ascending; None when only a scan can tell."""
    deletion: Any = fragment.deletion_file
    if deletion is None:
        return np.zeros(0, dtype=np.uint32)
    storage = table.datasets.storage
    # Files of the dataset that a fork was made of lie elsewhere.
    if not storage.is_local or deletion.base_id is not None or deletion.file_type != _LISTED:
        return None
    pin = table.pin
    folder = pin.location if pin.branch is None else f"{pin.location}/tree/{pin.branch}"
    try:
        data = storage.path(f"{folder}/{deletion.path(fragment.id)}").read_bytes()
        places = pa.ipc.open_file(pa.BufferReader(data)).read_all().column(0)
    except (OSError, pa.ArrowInvalid):
        # Whatever is wrong with it, a scan meets it too and says so properly.
        return None
    counters.add_calls("lance.read", bytes_read=len(data))
    counters.add_serial_stages()
    if places.type != pa.uint32() or len(places) != deletion.num_deleted_rows:
        return None
    offsets: npt.NDArray[np.uint32] = np.sort(places.to_numpy())
    return offsets
