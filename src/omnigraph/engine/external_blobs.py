"""Blobs that are given as addresses of objects outside of a graph: which may be, and how their content comes in.

A graph takes none unless it was opened with an allow-list of bases. An address is looked at as text first; then its
object is read below its base, where no symbolic link is followed. What a write stores is a copy; a load that replaces
whole types stores the address itself.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Self
from urllib.parse import unquote_to_bytes

from omnigraph.errors import (
    BadValue,
    BlobSource,
    ExternalBlobError,
    ExternalBlobSourceError,
    LimitExceeded,
    SourceTooLargeError,
    UsageError,
)
from omnigraph.records import record
from omnigraph.store.files import input_size, open_below, read_below, read_object
from omnigraph.values import check_whole, unfit
from omnigraph.values.blobs import INLINE_BLOB, MAX_ADDRESS_BYTES, external_address, reference_to

_SCHEMES = ("s3", "file")
_SHOWN = 200
_NOT_IN_PATHS = frozenset('"\\')


class _UnfitAddressError(Exception):
    """A text is no address of an object; the message says why."""


@record
class _Address:
    """An address in its parts: ``bucket`` is empty for a local file."""

    scheme: str
    bucket: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> _Address:
        if len(text.encode(errors="surrogatepass")) > MAX_ADDRESS_BYTES:
            raise _UnfitAddressError(f"it is longer than {MAX_ADDRESS_BYTES} bytes")
        scheme, separator, rest = text.partition("://")
        if not separator or scheme.lower() not in _SCHEMES:
            raise _UnfitAddressError("it does not begin with s3:// or file://")
        if not text.isprintable() or _NOT_IN_PATHS.intersection(text):
            raise _UnfitAddressError("it has a backslash, a quotation mark or a character that is not printable")
        for sign, what in (("?", "a query"), ("#", "a fragment")):
            if sign in rest:
                raise _UnfitAddressError(f"it has {what}")
        authority, _, path = rest.partition("/")
        if "@" in authority:
            raise _UnfitAddressError("it has credentials")
        if ":" in authority:
            raise _UnfitAddressError("it has a port")
        return cls(scheme=scheme.lower(), bucket=authority, parts=_parts(scheme.lower(), authority, path))

    def is_below(self, base: _Address) -> bool:
        """Whether it names something in the folder ``base``."""
        return (self.scheme, self.bucket) == (base.scheme, base.bucket) and self.parts[: len(base.parts)] == base.parts

    @property
    def text(self) -> str:
        return f"{self.scheme}://{self.bucket}/{'/'.join(self.parts)}"


def _parts(scheme: str, authority: str, path: str) -> tuple[str, ...]:
    if scheme == "s3" and not authority:
        raise _UnfitAddressError("it has no bucket")
    if scheme == "file" and authority:
        raise _UnfitAddressError("it names a host")
    parts = tuple(path.split("/")) if path else ()
    if scheme == "file":
        parts = tuple(map(_decoded, parts))
    elif any("%" in part for part in parts):
        raise _UnfitAddressError("it has an encoded character; write the key of the object as it is")
    if not all(parts):
        raise _UnfitAddressError("it has an empty part")
    if any(part in {".", ".."} for part in parts):
        raise _UnfitAddressError("it has a dot segment")
    return parts


def _decoded(part: str) -> str:
    try:
        found = unquote_to_bytes(part).decode()
    except UnicodeError:
        raise _UnfitAddressError("it has an encoded character that is not UTF-8") from None
    if "/" in found or not found.isprintable() or _NOT_IN_PATHS.intersection(found):
        raise _UnfitAddressError("it has an encoded character that is not allowed in a name")
    return found


@record
class ExternalBlobs:
    """Which objects outside of a graph Blobs may be given as; without a base, none.

    Args:
        bases: folders, as ``s3://bucket/prefix/`` or ``file:///folder/``. None lies in another one.
        max_bytes: how much one write may copy in all.

    Raises:
        UsageError: a base is not the address of a folder, lies in another one, or is a local folder that does not
            exist.
    """

    bases: Sequence[str] = ()
    max_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        check_whole("max_bytes", self.max_bytes)
        if isinstance(self.bases, str) or not isinstance(self.bases, Sequence):
            raise unfit("bases", self.bases, "several addresses")
        found = [(base, _base(base)) for base in self.bases]
        for number, (base, address) in enumerate(found):
            for other, there in found[:number]:
                if address.is_below(there) or there.is_below(address):
                    raise _bad_base(base, f"it overlaps with '{other}'")

    @classmethod
    def of(cls, given: ExternalBlobs | Sequence[str | Path] | None) -> Self | ExternalBlobs:
        """Return the allow-list that an argument stands for: bases, local ones also as paths.

        Raises:
            UsageError: it is none.
        """
        if given is None or isinstance(given, ExternalBlobs):
            return given or cls()
        if isinstance(given, str | Path) or not isinstance(given, Sequence):
            raise unfit("external_blobs", given, "ExternalBlobs or several addresses")
        return cls(bases=tuple(item.absolute().as_uri() if isinstance(item, Path) else item for item in given))

    def find(self, text: str) -> tuple[str, _Address, _Address]:
        """Return an address as it is kept, its parts, and those of the base that it lies in.

        Raises:
            ExternalBlobError: it lies in none, or is no address.
        """
        if not self.bases:
            raise _refused(text, " in this graph")
        try:
            address = _Address.parse(text)
        except _UnfitAddressError as problem:
            raise _refused(text, f": {problem}") from None
        if not address.parts:
            raise _refused(text, ": it names no object")
        for base in map(_base, self.bases):
            if address.is_below(base) and address.parts != base.parts:
                return text, address, base
        raise _refused(text, ": it is outside of the allowed bases")

    def exceeded(self) -> SourceTooLargeError:
        """Return the error for a write that copies more than it may."""
        details = LimitExceeded(resource="external blob bytes", limit=self.max_bytes, actual=self.max_bytes + 1)
        return SourceTooLargeError(
            f"the external blobs of one write have more than {self.max_bytes} bytes",
            details=details,
            hint="load them in several parts, or open the graph with ExternalBlobs of a larger max_bytes",
        )


def _base(text: object) -> _Address:
    if not isinstance(text, str):
        raise unfit("base", text, "an address")
    try:
        address = _Address.parse(text.removesuffix("/"))
    except _UnfitAddressError as problem:
        raise _bad_base(text, str(problem)) from None
    if address.scheme == "file" and not (address.parts and Path(_local(address)).is_dir()):
        raise _bad_base(text, "it is not a folder that exists")
    return address


def _bad_base(text: str, reason: str) -> UsageError:
    details = BadValue(what="base", value=shown_address(text), expected="s3://bucket/prefix/ or file:///folder/")
    return UsageError(f"'{shown_address(text)}' is not a base of external blobs: {reason}", details=details)


def _refused(text: str, reason: str) -> ExternalBlobError:
    details = BadValue(what="blob", value=shown_address(text), expected=f"{INLINE_BLOB}…")
    return ExternalBlobError(f"external blob '{shown_address(text)}' is not allowed{reason}", details=details)


def shown_address(text: str) -> str:
    """Return an address as messages show it: without credentials and query, and not longer than people read.

    >>> shown_address("s3://me:secret@files/a?X-Signature=1")
    's3://…@files/a?…'
    """
    scheme, separator, rest = text.partition("://")
    if separator:
        rest, query, _ = rest.partition("?")
        authority, slash, path = rest.partition("/")
        user, at, host = authority.rpartition("@")
        text = f"{scheme}://{'…' if user else ''}{at}{host}{slash}{path}{'?…' if query else ''}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


class BlobIntake:
    """What one write takes in of objects outside of its graph. Threads may share it.

    Args:
        allowed: the allow-list of the graph.
        options: how buckets are reached.
        keeps_addresses: whether addresses are stored instead of copies.
    """

    def __init__(
        self, allowed: ExternalBlobs, options: Mapping[str, str] | None = None, *, keeps_addresses: bool = False
    ) -> None:
        self._allowed = allowed
        self._options = options or {}
        self._keeps_addresses = keeps_addresses
        self._copied = 0
        self._lock = threading.Lock()

    @property
    def copied_bytes(self) -> int:
        """How much has been copied so far."""
        return self._copied

    def keeping(self) -> BlobIntake:
        """Return the intake of a write that stores addresses."""
        return BlobIntake(self._allowed, self._options, keeps_addresses=True)

    def take(self, text: str) -> bytes:
        """Return what is stored for an address.

        Raises:
            ExternalBlobError: it is not allowed.
            ExternalBlobSourceError: it is, and its object cannot be read.
            SourceTooLargeError: the write has copied too much already.
        """
        text, address, base = self._allowed.find(text)
        try:
            if self._keeps_addresses:
                self._look(address, base)
                return reference_to(text)
            content = self._copy(address, base)
        except OSError as problem:
            if problem.errno == errno.EFBIG:
                raise self._allowed.exceeded() from problem
            raise _unavailable(text, (problem.strerror or "it cannot be read").lower()) from problem
        if external_address(content) is not None:
            raise _unavailable(text, "its content is a reference to another object")
        return content

    def _copy(self, address: _Address, base: _Address) -> bytes:
        # One at a time, so that no more is in memory than may be copied.
        with self._lock:
            content = self._read(address, base, self._allowed.max_bytes - self._copied)
            self._copied += len(content)
            return content

    def _look(self, address: _Address, base: _Address) -> None:
        if address.scheme == "s3":
            input_size(address.text, self._options)
        else:
            open_below(_local(base), address.parts[len(base.parts) :]).close()

    def _read(self, address: _Address, base: _Address, most: int) -> bytes:
        if address.scheme == "s3":
            return read_object(address.text, self._options, most=most)
        return read_below(_local(base), address.parts[len(base.parts) :], most=most)


def _unavailable(text: str, reason: str) -> ExternalBlobSourceError:
    shown = shown_address(text)
    details = BlobSource(uri=shown, reason=reason)
    return ExternalBlobSourceError(f"external blob '{shown}' is unavailable: {reason}", details=details)


def _local(address: _Address) -> str:
    return "/" + "/".join(address.parts)


_NOTHING = BlobIntake(ExternalBlobs())
_current: ContextVar[BlobIntake] = ContextVar("omnigraph_blob_intake", default=_NOTHING)


def current_intake() -> BlobIntake:
    """Return what takes in external blobs here and now; outside of a write of a graph that allows some, nothing."""
    return _current.get()


@contextmanager
def taking_blobs(intake: BlobIntake) -> Iterator[None]:
    """Let the block take in external blobs. Like ``counting``, it must not contain a ``yield``."""
    token = _current.set(intake)
    try:
        yield
    finally:
        _current.reset(token)
