"""Putting an archived graph to another place, on a disk or on an object store.

Lance writes the address of a dataset into those that branch off it, so that copied files alone are not the graph. The
addresses are members of protobuf messages, which are found and replaced here.
"""

from __future__ import annotations

import struct
import tarfile
from collections.abc import Iterator
from pathlib import Path

from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage

_TAIL = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def put_store(archive: Path, storage: Storage) -> None:
    """Write what an archive of ``write_store.py`` holds to where ``storage`` is."""
    with tarfile.open(archive) as packed:
        files = {member.name: packed.extractfile(member).read() for member in packed if member.isfile()}
    old, new = files.pop("root"), storage.root.encode()
    objects = ControlObjects(storage)
    for name, data in files.items():
        objects.put(name.removeprefix("graph/"), _moved_file(name, data, old, new))


def _moved_file(name: str, data: bytes, old: bytes, new: bytes) -> bytes:
    if name.endswith(".txn"):
        return _moved(data, old, new)
    if not name.endswith(".manifest"):
        return data
    at = _TAIL.unpack(data[-_TAIL.size :])[0]
    start = at + _LENGTH.size
    end = start + _LENGTH.unpack(data[at:start])[0]
    message = _moved(data[start:end], old, new)
    return data[:at] + _LENGTH.pack(len(message)) + message + data[end:]


def _moved(message: bytes, old: bytes, new: bytes) -> bytes:
    """Return a message with every text that begins with ``old`` beginning with ``new``, at any depth."""
    return b"".join(_moved_field(*field, old, new) for field in _fields(message)) if old in message else message


def _moved_field(head: bytes, kind: int, value: bytes, old: bytes, new: bytes) -> bytes:
    if kind != _BYTES:
        return head + value
    value = new + value.removeprefix(old) if value.startswith(old) else _moved(value, old, new)
    return head + _varint(len(value)) + value


def _fields(message: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        head, kind = message[start:at], tag & 7
        if kind == _BYTES:
            length, at = _read_varint(message, at)
            end = at + length
        elif kind == _VARINT:
            end = _read_varint(message, at)[1]
        else:
            end = at + {_FIXED64: 8, _FIXED32: 4}[kind]
        yield head, kind, message[at:end]
        at = end


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
