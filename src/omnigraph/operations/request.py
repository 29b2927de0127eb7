"""Requests as data: what they declare, what accompanies them, and what executes them.

A request holds plain values only, so that it can be recorded, sent or checked against a policy before it runs. What
cannot be sent, such as a callback, travels beside it as an attachment.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast

from omnigraph.errors import BadValue, UsageError
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import ActorName, BranchName, TagName

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
    """Base of all requests. ``Response`` is what executing one returns.

    The names in a request are brought into their canonical form when it is made, so that policies, guards and the
    engine compare the same text.

    Raises:
        UsageError, ValueFormatError: a name is not a text, or breaks a rule of its kind.
    """

    __slots__ = ()
    operation: ClassVar[Operation]

    def __post_init__(self) -> None:
        for field, parse in _names(cast("Any", type(self))):
            given = getattr(self, field)
            if field != "actor" or given is not None:
                object.__setattr__(self, field, str(parse(given)))

    if not TYPE_CHECKING:

        def __class_getitem__(cls, response: object) -> type:
            """Return the class: what a request returns is for type checkers, and nobody asks a class for it."""
            return cls


_declared: dict[str, type[Request[Any]]] = {}
# What the field ``name`` of an operation names, where that is a branch or a tag.
_NAMED: Mapping[str, Callable[[str], str]] = {
    "create_branch": BranchName.parse,
    "delete_branch": BranchName.parse,
    "create_tag": TagName.parse,
    "delete_tag": TagName.parse,
}


@cache
def _names(cls: Any) -> tuple[tuple[str, Callable[[str], str]], ...]:
    """Return the fields of a request that hold names, with the function that makes a name canonical."""
    parsers: dict[str, Callable[[str], str]] = dict.fromkeys(("branch", "source", "target"), BranchName.parse)
    parsers["actor"] = ActorName.parse
    if cls.operation.name in _NAMED:
        parsers["name"] = _NAMED[cls.operation.name]
    return tuple((one.name, parsers[one.name]) for one in fields(cls) if one.name in parsers)


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
