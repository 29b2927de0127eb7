"""What a table's own manifest says about the age of rows, kept short.

With stable row ids Lance writes for each fragment when every row was created and last changed: one run for each version
that brought rows. A table that grows by a row per commit would repeat a run per row in every later version. Nobody here
asks for more than the ends: whether rows of a fragment are older than an index (the least created version), and, from
outside, whether they may have changed since (the greatest changed version). So runs beyond a few become one that says
these. A row then looks as old as the oldest of its fragment and as fresh as the freshest: never younger than it is,
never unchanged when it was changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from lance.fragment import FragmentMetadata, RowDatasetVersionMeta

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
    for field, run in _fields(raw):
        if field == _RUN and isinstance(run, bytes):
            yield next((value for name, value in _fields(run) if name == _VERSION and isinstance(value, int)), 0)


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


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        value, at = _read_varint(raw, at)
        if tag & 7 == _BYTES:
            yield tag >> 3, raw[at : at + value]
            at += value
        else:
            yield tag >> 3, value


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
