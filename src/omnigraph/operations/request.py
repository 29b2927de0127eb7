"""Requests as data: what they declare, what accompanies them, what executes them, and their JSON form.

A request holds plain values only, so that it can be recorded, sent or checked against a policy before it runs. What
cannot be sent, such as a callback, travels beside it as an attachment.
"""

from __future__ import annotations

import base64
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from omnigraph.errors import BadValue, UsageError
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values.blobs import inline_text
from omnigraph.values.temporal import format_date, format_datetime

Response = TypeVar("Response")
_Declared = TypeVar("_Declared", bound="Request[Any]")

# Options and sources that requests carry. They belong to the engine, which is loaded only when one is decoded.
_NESTED = {
    "QueryOptions": "omnigraph.engine.query.options",
    "LoadSettings": "omnigraph.engine.load.options",
    "Source": "omnigraph.engine.load.sources.source",
    "Dialect": "omnigraph.engine.load.sources.dialect",
    "ExportSettings": "omnigraph.engine.export.options",
    "CompactionPolicy": "omnigraph.store.staging.compaction",
    "PageLimits": "omnigraph.history.feed.tokens",
}
_RECORD, _BASE64, _REQUEST = "$record", "$base64", "$request"


@record
class Operation:
    """What is declared about an operation beside the fields of its request."""

    name: str
    action: Action
    writes: bool
    group: str


class Request(Generic[Response]):
    """Base of all requests. ``Response`` is what executing one returns."""

    __slots__ = ()
    operation: ClassVar[Operation]

    if not TYPE_CHECKING:

        def __class_getitem__(cls, response: object) -> type:
            """Return the class: what a request returns is for type checkers, and nobody asks a class for it."""
            return cls


_declared: dict[str, type[Request[Any]]] = {}


def operation(name: str, action: Action, *, writes: bool = False) -> Callable[[type[_Declared]], type[_Declared]]:
    """Declare a request: the name of its operation, the action that a policy must allow, and whether it writes."""

    def declare(cls: type[_Declared]) -> type[_Declared]:
        group = cls.__module__.rpartition(".")[2]
        cls.operation = Operation(name=name, action=action, writes=writes, group=group)
        _declared[name] = cls
        return cls

    return declare


def all_operations() -> Mapping[str, type[Request[Any]]]:
    """Return the request of every operation by the operation's name."""
    for group in ("reads", "writes", "transactions", "history", "proposals", "maintenance", "algorithms", "stored"):
        import_module(f"omnigraph.operations.{group}")
    return MappingProxyType(_declared)


@record
class Attachments:
    """What accompanies a request and is not data.

    Args:
        progress: told how far the operation is.
        sink: the open file that a streamed export is written to.
        cancel: set from another thread to stop a read.
        runner: who does the work of optimizing, merging or comparing tables; this process when None.
    """

    progress: Callable[[Any], None] | None = None
    sink: Any = None
    cancel: threading.Event | None = None
    runner: Any = None


NOTHING = Attachments()


class Backend(Protocol):
    """What executes requests: the engine of this process, or a server."""

    @property
    def uri(self) -> str:
        """Where the graph lives."""

    @property
    def mode(self) -> Literal["read_write", "read_only"]:
        """Whether the graph may be written to."""

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request and return its response."""

    def close(self) -> None:
        """Finish what is under way and let go of everything."""


class BackendWrapper(ABC):
    """A backend that hands requests on to another one, and does something about them on the way."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._inner.uri

    @property
    def mode(self) -> Literal["read_write", "read_only"]:
        """Whether the graph may be written to."""
        return self._inner.mode

    @abstractmethod
    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request and return its response."""

    def close(self) -> None:
        """Close the backend behind this one."""
        self._inner.close()


def not_pickled(uri: str) -> UsageError:
    """Return the error for a backend that was to be sent to another process."""
    details = BadValue(what="graph", value=uri, expected="the address of the graph")
    return UsageError(
        f"an open graph cannot be pickled or copied: '{uri}'",
        details=details,
        hint="open the graph again in the other process",
    )


def request_to_json(request: Request[Any]) -> dict[str, Any]:
    """Return a request as JSON values.

    Raises:
        UsageError: a value has no JSON form.
    """
    return {"operation": request.operation.name, **_fields_to_json(request)}


def request_from_json(document: Mapping[str, Any]) -> Request[Any]:
    """Return the request that a document stands for. Values are checked when it is executed.

    Raises:
        UsageError: there is no such operation, or it has no such field.
    """
    values = dict(document)
    name = values.pop("operation", None)
    known = all_operations()
    declared = known.get(name) if isinstance(name, str) else None
    if declared is None:
        details = BadValue(what="operation", value=str(name), expected=", ".join(sorted(known)))
        raise UsageError(f"unknown operation '{name}'", details=details)
    request: Request[Any] = _from_fields(declared, values)
    return request


def _fields_to_json(value: Any) -> dict[str, Any]:
    document = {one.name: getattr(value, one.name) for one in fields(value)}
    if document.get("params_form") == "host":
        # What Python values mean is written out here: from now on they are JSON.
        document |= {name: _inline_blobs(document[name]) for name in ("params", "rows") if name in document}
        document["params_form"] = "strict"
    return {name: _to_json(item) for name, item in document.items()}


def _inline_blobs(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return inline_text(value)
    if isinstance(value, Mapping):
        return {key: _inline_blobs(item) for key, item in value.items()}
    return [_inline_blobs(item) for item in value] if isinstance(value, list | tuple) else value


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    for kind, encode in _ENCODERS:
        if isinstance(value, kind):
            return encode(value)
    if isinstance(value, Request):
        return {_REQUEST: request_to_json(value)}
    if is_dataclass(value) and type(value).__name__ in _NESTED:
        return {_RECORD: type(value).__name__, **_fields_to_json(value)}
    if hasattr(value, "tolist"):
        # Scalars and arrays of numpy, which users hand in as vectors.
        return _to_json(value.tolist())
    found = type(value).__name__
    details = BadValue(what="value", value=found, expected="a JSON value")
    raise UsageError(f"a value of type {found} cannot be part of a request", details=details)


# In this order: an enumeration of texts is a text too, and a datetime is a date.
_ENCODERS: Sequence[tuple[type, Callable[[Any], Any]]] = (
    (Enum, lambda value: value.value),
    (str, str),
    (bytes, lambda value: {_BASE64: base64.b64encode(value).decode()}),
    (Path, str),
    (Decimal, str),
    (datetime, lambda value: format_datetime(round(value.timestamp() * 1000))),
    (date, lambda value: format_date((value - date(1970, 1, 1)).days)),
    (Mapping, lambda value: {str(key): _to_json(item) for key, item in value.items()}),
    (frozenset, lambda value: sorted(map(_to_json, value))),
    (Iterable, lambda value: [_to_json(item) for item in value]),
)


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _BASE64 in value:
        return base64.b64decode(value[_BASE64])
    if _REQUEST in value:
        return request_from_json(value[_REQUEST])
    name = value.get(_RECORD)
    if name in _NESTED:
        rest = {key: item for key, item in value.items() if key != _RECORD}
        return _from_fields(getattr(import_module(_NESTED[name]), name), rest)
    return {key: _from_json(item) for key, item in value.items()}


def _from_fields(cls: Any, values: Mapping[str, Any]) -> Any:
    known = {one.name for one in fields(cls)}
    unknown = sorted(set(values) - known)
    if unknown:
        details = BadValue(what="request", value=unknown[0], expected=", ".join(sorted(known)))
        raise UsageError(f"{cls.__name__} has no field '{unknown[0]}'", details=details)
    return cls(**{name: _from_json(value) for name, value in values.items()})
