"""Where a graph lives: a directory, or a prefix of an S3-compatible bucket."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path, PurePath
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadValue, UsageError, ValueFormatError
from omnigraph.records import record
from omnigraph.values import checked_text

_S3 = "s3"
_SHOWN = 200
_FIRST_PRINTABLE, _DELETE = 0x20, "\x7f"
_MAX_PART_BYTES = 255
# A part of a key that is empty, a dot or two.
_CLIMBS = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)")
# Room for what a graph puts below its root.
_MAX_PATH_BYTES = 4096 - 800


@record
class Storage:
    """The root of a graph and how to reach it. Options may hold credentials, so they are never shown."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Callable[[str, dict[str, str]], Storage], tuple[str, dict[str, str]]]:
        # The read-only view of the options cannot be sent to another process, its content can.
        return _reopened, (self.root, dict(self.options))

    @classmethod
    def open(cls, root: str | Path, options: Mapping[str, str] | None = None) -> Storage:
        """Return the storage at ``root``: a path, a ``file://`` address or ``s3://bucket/prefix``. Touches nothing.

        Raises:
            ValueFormatError: another scheme, or an address without a bucket.
        """
        given = MappingProxyType(_checked_options(options))
        text = _checked_root(root)
        scheme, separator, _ = text.partition("://")
        if not separator:
            if not text:
                raise _bad_root(text)
            return cls(root=_folder(text), options=given)
        parts = urlsplit(text)
        match scheme.lower():
            case "file" if parts.netloc in {"", "localhost"} and parts.path:
                return cls(root=_folder(_checked_root(unquote(parts.path))), options=given)
            case "s3" if parts.netloc and not parts.query and not parts.fragment:
                prefix = "/".join(segment for segment in parts.path.split("/") if segment)
                return cls(root=f"{_S3}://{parts.netloc}/{prefix}".rstrip("/"), options=given)
            case _:
                raise _bad_root(text)

    @property
    def is_local(self) -> bool:
        """Whether the root is a directory of this machine."""
        return not self.root.startswith(f"{_S3}://")

    @property
    def bucket(self) -> str:
        """The bucket of an S3 root."""
        return urlsplit(self.root).netloc

    @property
    def prefix(self) -> str:
        """The key prefix of an S3 root, without slashes around it; empty for a whole bucket."""
        return urlsplit(self.root).path.strip("/")

    def uri(self, relative: str = "") -> str:
        """Return the address of something below the root, as Lance takes it."""
        return f"{self.root}/{_checked(relative)}" if relative else self.root

    def path(self, relative: str = "") -> Path:
        """Return the file or directory of something below a local root.

        Raises:
            UsageError: the root is not local.
        """
        if not self.is_local:
            details = BadValue(what="storage", value=self.root, expected="a local directory")
            raise UsageError("only local storage has paths", details=details)
        return Path(self.root, _checked(relative)) if relative else Path(self.root)

    def path_text(self, relative: str) -> str:
        """Return :meth:`path` as text: for what every write asks for, where making the object costs more than its use.

        Raises:
            UsageError: the root is not local.
        """
        return f"{self.root.rstrip('/')}/{_checked(relative)}" if self.is_local else str(self.path(relative))


def _checked_options(options: object) -> dict[str, str]:
    """Return storage options, which are a mapping of strings; none of them is ever shown."""
    found = dict(options) if isinstance(options, Mapping) else None if options is not None else {}
    if found is None or not all(isinstance(text, str) for pair in found.items() for text in pair):
        details = BadValue(what="storage_options", value="…", expected="a mapping of strings")
        raise UsageError("storage_options must be a mapping of strings", details=details)
    return found


def _checked_root(root: str | Path) -> str:
    """Return an address as text, when it is one that can be written down."""
    if not isinstance(root, str | PurePath):
        raise _bad_root(repr(root)[:_SHOWN], "it is neither a string nor a path")
    text = str(root)
    if any(ord(character) < _FIRST_PRINTABLE or character == _DELETE for character in text):
        raise _bad_root(text[:_SHOWN], "it holds a control character")
    checked_text("address", text)
    return text


def _folder(text: str) -> str:
    """Return the absolute path of a folder, which must be one that file systems take."""
    path = Path(text).absolute()
    depth = 0
    for part in path.parts[1:]:
        depth += -1 if part == ".." else 1
        if depth < 0:
            raise _bad_root(text[:_SHOWN], "it leads outside the file system root")
    if len(os.fsencode(path)) > _MAX_PATH_BYTES or any(len(os.fsencode(part)) > _MAX_PART_BYTES for part in path.parts):
        raise _bad_root(text[:_SHOWN], f"a name is longer than {_MAX_PART_BYTES} bytes, or the path is too long")
    return str(path)


def _reopened(root: str, options: dict[str, str]) -> Storage:
    return Storage(root=root, options=MappingProxyType(options))


def _checked(relative: str) -> str:
    # A key that climbs out of the root would let a damaged manifest row address foreign data.
    if _CLIMBS.search(relative):
        details = BadValue(what="storage key", value=relative, expected="a relative path without empty or dot segments")
        raise ValueFormatError("the key is not below the graph's root", details=details)
    return relative


def _bad_root(text: str, problem: str | None = None) -> ValueFormatError:
    details = BadValue(what="graph root", value=text.partition("?")[0], expected="a path or s3://bucket/prefix")
    hint = "use a path, file:// or s3://bucket/prefix"
    message = "not a valid graph location" + ("" if problem is None else f": {problem}")
    return ValueFormatError(message, details=details, hint=hint)
