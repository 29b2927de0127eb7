"""Where a graph lives: a directory, or a prefix of an S3-compatible bucket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadValue, UsageError, ValueFormatError
from omnigraph.records import record

_S3 = "s3"


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
        given = MappingProxyType(dict(options or {}))
        text = str(root)
        scheme, separator, _ = text.partition("://")
        if not separator:
            if not text:
                raise _bad_root(text)
            return cls(root=str(Path(text).absolute()), options=given)
        parts = urlsplit(text)
        match scheme.lower():
            case "file" if parts.netloc in {"", "localhost"} and parts.path:
                return cls(root=str(Path(unquote(parts.path)).absolute()), options=given)
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


def _reopened(root: str, options: dict[str, str]) -> Storage:
    return Storage(root=root, options=MappingProxyType(options))


def _checked(relative: str) -> str:
    # A key that climbs out of the root would let a damaged manifest row address foreign data.
    if relative.startswith("/") or any(part in {"", ".", ".."} for part in relative.split("/")):
        details = BadValue(what="storage key", value=relative, expected="a relative path without empty or dot segments")
        raise ValueFormatError("not a key below the graph's root", details=details)
    return relative


def _bad_root(text: str) -> ValueFormatError:
    details = BadValue(what="graph root", value=text.partition("?")[0], expected="a path or s3://bucket/prefix")
    hint = "give a path, file:// or s3://bucket/prefix"
    return ValueFormatError("not a place a graph can live at", details=details, hint=hint)
