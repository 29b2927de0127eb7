"""Records as JSON on storage: a shape is one ``msgspec.Struct``, whose decoding checks it.

The parts of a struct are written in their order and under their names, so that both belong to the storage format. A
part that is called otherwise in the code keeps its stored name with ``msgspec.field(name=...)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec

from omnigraph.errors import FormatMismatch, OmnigraphError
from omnigraph.values import Ulid

T = TypeVar("T")

_SEAL = b',"checksum":"%b"}'
_SEAL_LENGTH = len(_SEAL % bytes(16))
_SEAL_START = _SEAL.index(b"%")
# So many digits of a checksum prove that what is before them is as it was written.
_PROOF_LENGTH = 12
_SHOWN = 200


def _plain(value: Any) -> str:
    # Ids and names are text of their own type; msgspec takes plain text only.
    if isinstance(value, str):
        return str.__str__(value)
    msg = f"{type(value).__name__} has no JSON form"
    raise NotImplementedError(msg)


def _restored(kind: type, value: Any) -> Any:
    if not (issubclass(kind, str) and isinstance(value, str)):
        msg = f"expected {kind.__name__}, found {type(value).__name__}"
        raise TypeError(msg)
    return Ulid.parse(value) if kind is Ulid else kind(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def encode_json(value: Any) -> bytes:
    """Return ``value`` as compact JSON."""
    return _ENCODER.encode(value)


def to_builtins(value: Any) -> Any:
    """Return ``value`` as what JSON is made of."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def json_decoder(kind: type[T]) -> Callable[[bytes | str], T]:
    """Return what decodes JSON of a shape, and raises ``ValueError`` for anything else.

    To be called while a module is imported: the library takes a type apart when it first meets it, and threads that
    come to that moment together bring the process down.
    """
    decoder = msgspec.json.Decoder(kind, dec_hook=_restored)

    def decode(data: bytes | str) -> T:
        try:
            return decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(str(error)) from error

    return decode


class StoredCodec(Generic[T]):
    """How one shape is written to objects of its own.

    Args:
        kind: the shape.
        subject: what errors call the object.
        expected: what errors say it should hold.
        error: raised for an object that holds something else.
        hint: what to do then.
    """

    def __init__(
        self, kind: type[T], *, subject: str, expected: str, error: type[OmnigraphError], hint: str | None = None
    ) -> None:
        self._decode = json_decoder(kind)
        self._subject = subject
        self._expected = expected
        self._error = error
        self._hint = hint
        self._kind: Any = kind

    def encode(self, value: T) -> bytes:
        """Return the bytes that storage holds."""
        return encode_json(value)

    def decode(self, data: bytes, key: str) -> T:
        """Return the record that ``data``, read from the object ``key``, describes.

        Raises:
            OmnigraphError: of the class that was given; it is not JSON, or of another shape.
        """
        try:
            return self._checked(data)
        except ValueError as error:
            details = FormatMismatch(what=key, expected=self._expected, found=str(error)[:_SHOWN])
            raise self._error(f"cannot read {self._subject} '{key}'", details=details, hint=self._hint) from error

    def is_newer(self, data: bytes) -> bool:
        """Tell whether a newer version seems to have written the bytes: they have every part, and more."""
        content, parts = loose_json(data), msgspec.structs.fields(self._kind)
        names = {part.encode_name for part in parts}
        return {part.encode_name for part in parts if part.required} <= content.keys() and bool(content.keys() - names)

    def _checked(self, data: bytes) -> T:
        return self._decode(data)


class SealedCodec(StoredCodec[T]):
    """A codec whose objects end in a checksum of everything before it; ``needs_seal`` tells which may lack one."""

    def __init__(
        self,
        kind: type[T],
        *,
        subject: str,
        expected: str,
        error: type[OmnigraphError],
        needs_seal: Callable[[T], bool],
        hint: str | None = None,
    ) -> None:
        super().__init__(kind, subject=subject, expected=expected, error=error, hint=hint)
        self._needs_seal = needs_seal

    def encode(self, value: T) -> bytes:
        """Return the bytes that storage holds."""
        return seal(encode_json(value))

    def is_whole(self, data: bytes) -> bool:
        """Whether the bytes are as some version of omnigraph has written them, whatever they say."""
        try:
            return b'"checksum"' in data and bool(_unsealed(data))
        except ValueError:
            return False

    def is_newer(self, data: bytes) -> bool:
        """Tell whether a newer version of omnigraph has written the bytes."""
        number = loose_json(data).get("format")
        return isinstance(number, int) and number > 1 and self.is_whole(data)

    def salvage(self, data: bytes, key: str) -> T | None:
        """Return the record that ``data`` holds whole although something is before or behind it, or its end is cut off.

        None: what is left of the checksum does not prove that every part is as it was written.
        """
        start, end = data.find(b"{"), data.rfind(_SEAL[:_SEAL_START])
        if not 0 <= start < end:
            return None
        whole = seal(data[start:end] + b"}")
        if not data[start:].startswith(whole[: -_SEAL_LENGTH + _SEAL_START + _PROOF_LENGTH]):
            return None
        with suppress(OmnigraphError):
            return self.decode(whole, key)
        return None

    def _checked(self, data: bytes) -> T:
        is_sealed = b'"checksum"' in data
        value = self._decode(_unsealed(data) if is_sealed else data)
        if not is_sealed and self._needs_seal(value):
            msg = "there is no checksum"
            raise ValueError(msg)
        return value


def loose_json(data: bytes) -> dict[str, object]:
    """Return the parts of a JSON object whatever they are; none for anything else."""
    try:
        content = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def seal(body: bytes) -> bytes:
    """Return a JSON object with a checksum of it as its last part.

    >>> seal(b'{"a":1}')
    b'{"a":1,"checksum":"1f8c00645b7df6ce"}'
    """
    return body[:-1] + _SEAL % _checksum(body)


def _unsealed(data: bytes) -> bytes:
    body, found = data[:-_SEAL_LENGTH] + b"}", data[-_SEAL_LENGTH:]
    if found != _SEAL % _checksum(body):
        msg = "the checksum does not match"
        raise ValueError(msg)
    return body


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8).hexdigest().encode()
