"""Requests as data: what they declare, what accompanies them, and what executes them.

A request holds plain values only, so that it can be recorded, sent or checked against a policy before it runs. What
cannot be sent, such as a callback, travels beside it as an attachment.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from omnigraph.errors import BadValue, UsageError
from omnigraph.policy.decision import Action
from omnigraph.records import record

Response = TypeVar("Response")
_Declared = TypeVar("_Declared", bound="Request[Any]")


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
