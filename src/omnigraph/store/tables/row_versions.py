"""What a table's own manifest says about the age of rows, kept short.

With stable row ids Lance writes for each fragment when every row was created and last changed: one run for each version
that brought rows. A table that grows by a row per commit would repeat a run per row in every later version. Nobody here
asks for more than the ends: whether rows of a fragment are older than an index (the least created version), and, from
outside, whether they may have changed since (the greatest changed version). So runs beyond a few become one that says
these. A row then looks as old as the oldest of its fragment and as fresh as the freshest: never younger than it is,
never unchanged when it was changed.

Asking Lance which rows of a fragment are deleted lists every row that is not. A deletion file of the usual form is a
short list of places, so that reading it costs what was deleted and not what is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import FragmentMetadata, RowDatasetVersionMeta

from omnigraph.records import record
from omnigraph.runtime import current_counters
from omnigraph.store.protobuf import read_fields
from omnigraph.store.tables.pinned import PinnedTable

# Some twenty runs: a fragment of fewer rows never has more.
_MOST_BYTES = 256
_FEWEST_ROWS = 20
# The numbers of Lance's fields: a sequence's runs, a run's parts, a segment that is a range, and where it ends.
_RUN, _SPAN, _VERSION, _RANGE, _RANGE_END = 1, 1, 2, 1, 2
_VARINT, _BYTES = 0, 2


def flattened(metadata: FragmentMetadata) -> FragmentMetadata | None:
    """Return a fragment with its row versions in one run each, or None when they are short as they are."""
    if metadata.physical_rows <= _FEWEST_ROWS:
        return None
    created = _long_inline(metadata.created_at_version_meta)
    changed = _long_inline(metadata.last_updated_at_version_meta)
    if created is None and changed is None:
        return None
    rows = metadata.physical_rows
    short = replace(metadata)
    if created is not None:
        short.created_at_version_meta = _one_run(rows, min(run_versions(created)))
    if changed is not None:
        short.last_updated_at_version_meta = _one_run(rows, max(run_versions(changed)))
    return short


def run_versions(raw: bytes) -> Iterator[int]:
    """Yield the version of every run of a sequence, in the form that Lance stores it in."""
    for field, run in read_fields(raw):
        if field == _RUN and isinstance(run, bytes):
            yield next((value for name, value in read_fields(run) if name == _VERSION and isinstance(value, int)), 0)


@record(kw_only=False)
class ChangeBounds:
    """What a fragment says of its rows: the version that none was created before, and that none was changed after."""

    created: int
    changed: int

    @property
    def is_insert(self) -> bool:
        """Whether one version brought all rows, so that nothing stood in their place before."""
        return self.created == self.changed


def change_bounds(metadata: FragmentMetadata, newest: int) -> ChangeBounds:
    """Return the versions between which the rows of a fragment were created and changed.

    Args:
        metadata: the fragment.
        newest: the version of the table, which bounds what the fragment does not say.
    """
    created = _inline_versions(metadata.created_at_version_meta)
    changed = _inline_versions(metadata.last_updated_at_version_meta)
    return ChangeBounds(min(created, default=0), max(changed, default=newest))


def _inline_versions(meta: RowDatasetVersionMeta | None) -> list[int]:
    match None if meta is None else json.loads(meta.json()):
        case {"inline": list(numbers)}:
            return list(run_versions(bytes(numbers)))
        case _:
            return []


def _long_inline(meta: RowDatasetVersionMeta | None) -> bytes | None:
    if meta is None:
        return None
    # Each byte takes two characters at least, and reading them all is what is to be spared.
    text = meta.json()
    if len(text) < 2 * _MOST_BYTES:
        return None
    match json.loads(text):
        case {"inline": list(numbers)} if len(numbers) > _MOST_BYTES:
            return bytes(numbers)
        case _:
            return None


def _one_run(rows: int, version: int) -> RowDatasetVersionMeta:
    # A sequence of one run: a segment, which is the range of all places, and their version.
    segment = _message(_RANGE, _number(_RANGE_END, rows))
    run = _message(_RUN, _message(_SPAN, segment) + _number(_VERSION, version))
    made: RowDatasetVersionMeta = RowDatasetVersionMeta.from_json(json.dumps({"inline": list(run)}))
    return made


def _message(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | _BYTES]) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3 | _VARINT]) + _varint(value)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


_LISTED = "array"


def read_deletions(table: PinnedTable, fragment: FragmentMetadata) -> npt.NDArray[np.uint32] | None:
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
    current_counters().add_calls("lance.read", bytes_read=len(data))
    current_counters().add_serial_stages()
    if places.type != pa.uint32() or len(places) != deletion.num_deleted_rows:
        return None
    offsets: npt.NDArray[np.uint32] = np.sort(places.to_numpy())
    return offsets
