"""The form of a projection's file: a header that says what it is and covers, then arrays as they lie in memory.

A file begins with a mark, the number of its format, the length of the header and a checksum of the header. The header
has a checksum of everything behind it. So a file that is torn, foreign, or of another format is told from a good one
before any of its numbers is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

FORMAT = 1

Arrays = Mapping[str, npt.NDArray[Any]]

_MARK = b"OMNIPROJ"
# Mark, format, length of the header, checksum of the header.
_PRELUDE = struct.Struct("<8sIIQ")
_ALIGNMENT = 64
# Numbers alone: what a file says must never become an object.
_KINDS = frozenset("biuf")
PRELUDE_BYTES = _PRELUDE.size
# Enough for the header of a table of some hundred fragments, so that one read brings it.
HEADER_GUESS_BYTES = 64 << 10


class CoveredFragment(msgspec.Struct, frozen=True, kw_only=True):
    """A fragment as a projection saw it.

    Args:
        files: its data files, as far as they hold what the projection is made from; all where none does.
        row_count: how many rows its files hold, deleted ones too.
        deletion: which deletion file it had, by its two numbers.
        deleted: the places of the rows that were deleted, as unsigned 32-bit numbers, ascending.
    """

    files: tuple[str, ...]
    row_count: int
    deletion: tuple[int, int] | None = None
    deleted: bytes = b""


class CoveredTable(msgspec.Struct, frozen=True, kw_only=True):
    """The fragments of a table that a projection covers; a row's *place* counts the rows of all of them in order."""

    location: str
    fragments: tuple[CoveredFragment, ...]

    @property
    def row_count(self) -> int:
        """How many places there are, those of deleted rows too."""
        return sum(fragment.row_count for fragment in self.fragments)


class StoredArray(msgspec.Struct, frozen=True, kw_only=True):
    """Where an array lies behind the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a projection is, what it covers, and where its arrays are.

    Args:
        kind: which structure it is.
        of: what of the table it is about; empty when there is only one of the kind.
        tables: what it was made from, its own table first.
        facts: numbers and texts about the arrays.
        arrays: the arrays.
        body_bytes: how many bytes follow the header.
        body_checksum: what they add up to.
    """

    kind: str
    of: str
    tables: tuple[CoveredTable, ...]
    facts: dict[str, Any]
    arrays: tuple[StoredArray, ...]
    body_bytes: int
    body_checksum: int


def pack(
    kind: str, of: str, tables: Sequence[CoveredTable], arrays: Arrays, facts: Mapping[str, Any]
) -> list[bytes | memoryview]:
    """Return the pieces of a projection's file, the first of which is its header."""
    stored, pieces, offset = [], list[bytes | memoryview](), 0
    digest = xxhash.xxh3_64()
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array)
        if plain.dtype.kind not in _KINDS:
            raise TypeError(f"array '{name}' has type {plain.dtype}, which is not a number")
        stored.append(StoredArray(name=name, dtype=plain.dtype.str, shape=plain.shape, offset=offset))
        data = plain.reshape(-1).view(np.uint8).data
        for piece in (data, bytes(-plain.nbytes % _ALIGNMENT)):
            digest.update(piece)
            pieces.append(piece)
        offset += plain.nbytes + len(pieces[-1])
    header = Header(
        kind=kind,
        of=of,
        tables=tuple(tables),
        facts=dict(facts),
        arrays=tuple(stored),
        body_bytes=offset,
        body_checksum=digest.intdigest(),
    )
    return [_packed(header), *pieces]


def _packed(header: Header) -> bytes:
    data = msgspec.msgpack.encode(header)
    padded = data + bytes(-(PRELUDE_BYTES + len(data)) % _ALIGNMENT)
    return _PRELUDE.pack(_MARK, FORMAT, len(data), xxhash.xxh3_64_intdigest(padded)) + padded


def header_bytes(start: bytes | memoryview) -> int | None:
    """Return with how many bytes the file of a projection begins before its arrays; None when it is none."""
    if len(start) < PRELUDE_BYTES:
        return None
    mark, number, length, _ = _PRELUDE.unpack_from(start)
    if mark != _MARK or number != FORMAT:
        return None
    return PRELUDE_BYTES + int(length) + -(PRELUDE_BYTES + int(length)) % _ALIGNMENT


def is_other_format(start: bytes | memoryview) -> bool:
    """Whether a file begins like a projection of another format than this one."""
    if len(start) < PRELUDE_BYTES:
        return False
    mark, number, _, _ = _PRELUDE.unpack_from(start)
    return bool(mark == _MARK and number != FORMAT)


def unpack_header(start: bytes | memoryview) -> Header | None:
    """Return the header of a file that begins with these bytes; None when it is none, or not whole."""
    length = header_bytes(start)
    if length is None or len(start) < length:
        return None
    _, _, count, checksum = _PRELUDE.unpack_from(start)
    padded = bytes(start[PRELUDE_BYTES:length])
    if xxhash.xxh3_64_intdigest(padded) != checksum:
        return None
    try:
        return _DECODER.decode(padded[:count])
    except msgspec.MsgspecError:
        return None


_DECODER = msgspec.msgpack.Decoder(Header)


def unpack_arrays(header: Header, body: npt.NDArray[np.uint8]) -> Arrays | None:
    """Return the arrays behind a header, not copied; None when they are not what was written."""
    if len(body) != header.body_bytes or xxhash.xxh3_64_intdigest(body.data) != header.body_checksum:
        return None
    return dict(_arrays(header, body))


def _arrays(header: Header, body: npt.NDArray[np.uint8]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for stored in header.arrays:
        dtype = np.dtype(stored.dtype)
        count = int(np.prod(stored.shape, dtype=np.int64))
        data = body[stored.offset : stored.offset + count * dtype.itemsize]
        yield stored.name, data.view(dtype).reshape(stored.shape)
