"""The documents stored about a cluster: JSON with a version, read strictly and written so that people can read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from omnigraph.errors import ClusterPlaceProblem, ClusterStateError
from omnigraph.txn.stored_json import encode_json, json_decoder

T = TypeVar("T")

_VERSION = 1
_SHOWN = 200


def state_error(code: str, path: str, message: str) -> ClusterStateError:
    """Return the error that stops a command with a finding of this code."""
    return ClusterStateError(message, details=ClusterPlaceProblem(finding=code, path=path))


class ClusterDocument(Generic[T]):
    """How one kind of document is written and read.

    Unknown members, members that are given twice and another version are refused: a command that does not understand
    all of a document would lose a part of it.

    Args:
        kind: the shape, whose first member is the version.
        version_member: what the version is called.
        what: what messages call the document.
        invalid: the code for one that cannot be understood.
        unsupported: the code for one of another version.
        prepare: brings earlier forms of the document into this one.
    """

    def __init__(
        self,
        kind: type[T],
        *,
        version_member: str,
        what: str,
        invalid: str,
        unsupported: str,
        prepare: Callable[[dict[str, Any], str], None] | None = None,
    ) -> None:
        self._decode = json_decoder(kind)
        self._version_member = version_member
        self._what = what
        self._invalid = invalid
        self._unsupported = unsupported
        self._prepare = prepare

    def encode(self, value: T) -> bytes:
        """Return the bytes that are stored."""
        return msgspec.json.format(encode_json(value), indent=2) + b"\n"

    def decode(self, data: bytes, path: str) -> T:
        """Return the document that is stored under ``path``.

        Raises:
            ClusterStateError: it is not JSON, of another version, or of another shape.
        """
        raw = self._parsed(data, path)
        version = raw.get(self._version_member)
        if isinstance(version, int) and version != _VERSION:
            message = f"{self._what} '{path}' has version {version}; this version of omnigraph reads {_VERSION}"
            raise state_error(self._unsupported, path, message)
        if self._prepare is not None:
            self._prepare(raw, path)
        try:
            return self._decode(encode_json(raw))
        except (ValueError, msgspec.MsgspecError) as problem:
            raise self._refused(path, str(problem)) from problem

    def _parsed(self, data: bytes, path: str) -> dict[str, Any]:
        try:
            raw = json.loads(data, object_pairs_hook=_once, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as problem:
            raise self._refused(path, str(problem)) from problem
        if not isinstance(raw, dict):
            raise self._refused(path, "it is not a JSON object")
        return raw

    def _refused(self, path: str, why: str) -> ClusterStateError:
        return state_error(self._invalid, path, f"cannot read {self._what} '{path}': {why[:_SHOWN]}")


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            msg = f"member '{name}' occurs twice"
            raise ValueError(msg)
        found[name] = value
    return found


def _refuse_constant(name: str) -> Any:
    msg = f"{name} is not JSON"
    raise ValueError(msg)
