"""Requests as data: what they declare, what accompanies them, what executes them, and the types of their fields.

A request holds plain values only, so that it can be recorded, sent or checked against a policy before it runs. What
cannot be sent, such as a callback, travels beside it as an attachment.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast

from omnigraph.errors import BadValue, UsageError
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import ActorName, BranchName, TagName, check_flag, check_path, check_text, unfit
from omnigraph.values.checks import LARGEST

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
        UsageError, ValueFormatError: a name breaks a rule of its kind.
    """

    __slots__ = ()
    operation: ClassVar[Operation]

    def __post_init__(self) -> None:
        for field, parse in _names(cast("Any", type(self))):
            given = getattr(self, field)
            # What is no text is refused by `check_request`, which says where it is.
            if isinstance(given, str):
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


# The types of fields, checked in one place on every way in: a request made in Python, one made of JSON and one about to
# be sent to a server are refused with the same error. Bounds and choices of words are checked when it is executed.

Check = Callable[[str, Any], None]

# What a transaction and its call make, and a few more; a request nested deeper means nothing to any operation.
_MOST_NESTED = 4


def check_request(request: Request[Any]) -> None:
    """Refuse a request with a field that holds a value of another type than it is declared with.

    Raises:
        UsageError: a value is of another type; the error names the field.
        ValueFormatError: a text holds half of a surrogate pair.
    """
    _request("", request)


def _request(place: str, value: Any, depth: int = 0) -> None:
    if not isinstance(value, Request) or not hasattr(type(value), "operation"):
        raise unfit(place or "request", value, "a request")
    if depth > _MOST_NESTED:
        details = BadValue(what=place, value=value.operation.name, expected=f"at most {_MOST_NESTED} nested requests")
        raise UsageError("requests are nested too deeply", details=details)
    prefix = f"{place}." if place else ""
    for name, check in _checks_of(type(value)):
        item = getattr(value, name)
        if check is _request:
            _request(f"{prefix}{name}", item, depth + 1)
        else:
            check(f"{prefix}{name}", item)


def check_fields(place: str, value: Any) -> None:
    """Refuse a record with a field of another type than it is declared with; raises what :func:`check_request` does."""
    for name, check in _checks_of(type(value)):
        check(f"{place}.{name}", getattr(value, name))


def _checks_of(cls: type) -> tuple[tuple[str, Check], ...]:
    found = _BY_CLASS.get(cls)
    if found is None:
        every = [(one.name, _check_of(str(one.type))) for one in fields(cast("Any", cls))]
        found = _BY_CLASS[cls] = tuple((name, check) for name, check in every if check is not _anything)
    return found


_BY_CLASS: dict[type, tuple[tuple[str, Check], ...]] = {}


def _check_of(annotation: str) -> Check:
    optional = annotation.removesuffix(" | None")
    check = _BY_TYPE[optional]
    if optional == annotation or check is _anything:
        return check

    def check_given(place: str, value: Any) -> None:
        if value is not None:
            check(place, value)

    return check_given


def _anything(place: str, value: Any) -> None:
    """The query that they are for says what parameters may be."""


def _word(place: str, value: Any) -> None:
    # Which words there are is for the operation to say.
    if not isinstance(value, str):
        raise unfit(place, value, "a word")


def _name_and_number(place: str, value: Any) -> None:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise unfit(place, value, "a name and a number")
    check_text(f"{place}[0]", value[0])
    _whole(f"{place}[1]", value[1])


def _text_or_bytes(place: str, value: Any) -> None:
    if not isinstance(value, str | bytes):
        raise unfit(place, value, "text")


def _whole(place: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -LARGEST <= value <= LARGEST:
        raise unfit(place, value, "a whole number of 64 bits")


def _number(place: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
        raise unfit(place, value, "a finite number")


def _each(check: Check, expected: str) -> Check:
    def check_items(place: str, value: Any) -> None:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise unfit(place, value, expected)
        # A stream is read once, by the operation.
        for number, item in enumerate(value if isinstance(value, Collection) else ()):
            check(f"{place}[{number}]", item)

    return check_items


_texts = _each(check_text, "several names")


def _mapping(place: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise unfit(place, value, "a mapping")


def _texts_by_name(place: str, value: Any) -> None:
    _mapping(place, value)
    for name, item in value.items():
        check_text(place, name)
        check_text(f"{place}.{name}", item)


def _text_or_texts(place: str, value: Any) -> None:
    (check_text if isinstance(value, str) else _texts)(place, value)


def _path_or_storage(place: str, value: Any) -> None:
    if type(value).__name__ != "Storage":
        check_path(place, value)


def _record(name: str) -> Check:
    def check(place: str, value: Any) -> None:
        # By its name: its module is loaded by those who make one.
        if type(value).__name__ != name:
            raise unfit(place, value, name)

    return check


def _source(place: str, value: Any) -> None:
    if isinstance(value, str):
        check_text(place, value)
    elif type(value).__name__ in {"Source", "SentSource"}:
        check_fields(place, value)
    else:
        raise unfit(place, value, "a path or a Source")


def _source_format(place: str, value: Any) -> None:
    from typing import get_args  # noqa: PLC0415 - few requests need it

    from omnigraph.engine.load.sources.source import SourceFormat  # noqa: PLC0415 - see above
    from omnigraph.values import check_choice  # noqa: PLC0415 - see above

    check_choice(place, value, get_args(SourceFormat))


_BY_TYPE: Mapping[str, Check] = {
    **dict.fromkeys(("Any", "Sequence[Any]"), _anything),
    **dict.fromkeys(("ExportFormat", "LoadMode", "OnConflict", "OnDelete", "ParamsForm", "Resolution"), _word),
    "tuple[str, int]": _name_and_number,
    "str": check_text,
    "str | bytes": _text_or_bytes,
    "int": _whole,
    "float": _number,
    "bool": check_flag,
    "Iterable[str]": _texts,
    "Sequence[str]": _texts,
    "Iterable[str | bytes]": _each(_text_or_bytes, "several texts"),
    "str | Sequence[str]": _text_or_texts,
    "Mapping[str, Any]": _mapping,
    "Mapping[str, str]": _texts_by_name,
    "Sequence[Mapping[str, Any]]": _each(_mapping, "several mappings"),
    "str | Path": check_path,
    "str | Path | Storage": _path_or_storage,
    "Sequence[Source | str]": _each(_source, "several sources"),
    "SourceFormat": _source_format,
    "Request[Any]": _request,
    **{
        name: _record(name)
        for name in ("CompactionPolicy", "Dialect", "ExportSettings", "LoadSettings", "PageLimits", "QueryOptions")
    },
}
"""What the types that fields are declared with mean; a new type needs a line."""
