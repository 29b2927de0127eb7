"""Classes for an event loop, made from those of ``omnigraph.graph``: methods that wait are to be awaited."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any, cast

from omnigraph.aio.bridge import BridgedBackend, run, wait
from omnigraph.graph import (
    algorithms,
    blobs,
    branch,
    diff,
    feed,
    graph,
    proposals,
    queries,
    state,
    transaction,
    writing,
)
from omnigraph.values.printable import Printable

# The classes, those that others are based on first.
CLASSES: tuple[type, ...] = (
    Printable,
    state.State,
    state.Snapshot,
    writing.WriteVerbs,
    branch.BranchVerbs,
    branch.Branch,
    graph.Graph,
    algorithms.Algorithms,
    blobs.BlobReader,
    diff.Diff,
    diff.Log,
    diff.Baseline,
    feed.Feed,
    proposals.Proposal,
    proposals.Proposals,
    queries.StoredCall,
    queries.StoredRead,
    queries.StoredMutation,
    queries.Queries,
    transaction.Transaction,
)
# Methods that wait for nothing.
IMMEDIATE = {
    blobs.BlobReader: {"__enter__", "__exit__", "readable", "seekable", "writable", "tell", "seek", "close"},
    diff.Log: {"__iter__", "__getitem__", "__len__", "draw"},
    feed.Feed: {"seek", "stop"},
    proposals.Proposal: {"to_json"},
    queries.Queries: {"__iter__", "__getitem__", "__getattr__", "__len__", "__contains__", "__dir__"},
}
# Properties that wait, and so are methods here.
AWAITED = {state.State: {"schema", "queries"}, feed.Feed: {"source"}}
# Texts for people that would have to wait.
LEFT_OUT = {state.State: {"_repr_html_"}, diff.Diff: {"__str__", "_repr_html_"}}
RENAMED = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__"}
_TEXTS = {"__repr__", "__str__", "_repr_html_", "_ipython_key_completions_"}
_OPERATORS = {"__call__", "__iter__", "__enter__", "__exit__"}
# Members of an object that help people who look at it.
_HELP = ("__name__", "__doc__", "__signature__")


class Facade:
    """An object for an event loop, in front of one for threads."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.__dict__.update({name: vars(plain)[name] for name in _HELP if name in vars(plain)})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in vars(self._plain):
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)
        return vars(self._plain)[name]

    def __repr__(self) -> str:
        return repr(self._plain)

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap, (self._plain,)


_FACADES: dict[type, type[Facade]] = {}


def wrap(value: Any) -> Any:
    """Return what a task gets for a result: a façade where there is one."""
    made = _FACADES.get(type(value))
    if made is not None:
        return made(value)
    if isinstance(value, BridgedBackend):
        return value.inner
    return value


def unwrap(value: Any) -> Any:
    """Return what an object for threads gets for an argument; functions may return something to be awaited."""
    if isinstance(value, Facade):
        return value._plain  # noqa: SLF001 - its own
    if inspect.isroutine(value) or isinstance(value, partial):
        return partial(_call_back, value)
    return value


def _call_back(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    result = function(*map(wrap, args), **options)
    return unwrap(wait(result) if inspect.isawaitable(result) else result)


def awaitable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for tasks that calls one for threads."""

    @wraps(function)
    async def call(*args: Any, **options: Any) -> Any:
        plain = {name: unwrap(value) for name, value in options.items()}
        return _answer(args, await run(function, *map(unwrap, args), **plain))

    return call


def _immediate(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return _answer(args, function(*map(unwrap, args), **options))

    return call


def _answer(args: Sequence[Any], result: Any) -> Any:
    if args and isinstance(args[0], Facade) and unwrap(args[0]) is result:
        return args[0]
    return map(wrap, result) if isinstance(result, Iterator) else wrap(result)


def _drawing(function: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    @wraps(function)
    async def draw(*args: Any, **options: Any) -> AsyncIterator[Any]:
        items = iter(function(*map(unwrap, args), **options))
        end = object()
        try:
            while (item := await run(next, items, end)) is not end:
                yield wrap(item)
        finally:
            await run(getattr(items, "close", lambda: None))

    return draw


def _members(plain: type) -> dict[str, Any]:
    members: dict[str, Any] = {"__doc__": plain.__doc__, "__module__": "omnigraph.aio", "__qualname__": plain.__name__}
    immediate, awaited = IMMEDIATE.get(plain, set()), AWAITED.get(plain, set())
    for name, member in vars(plain).items():
        if name in LEFT_OUT.get(plain, set()):
            members |= {"__str__": Facade.__repr__} if name == "__str__" else {}
            continue
        if name.startswith("_") and name not in immediate | _TEXTS | _OPERATORS:
            continue
        if isinstance(member, property):
            getter = cast("Callable[..., Any]", member.fget)
            members[name] = awaitable(getter) if name in awaited else property(_immediate(getter), doc=member.__doc__)
        elif name in immediate | _TEXTS | {"lines"}:
            members[name] = _immediate(member)
        elif inspect.isfunction(member):
            made = _drawing if inspect.isgeneratorfunction(member) or name == "__iter__" else awaitable
            members[RENAMED.get(name, name)] = made(member)
    return members


def _make(plain: type) -> type[Facade]:
    bases: tuple[type, ...] = tuple(_FACADES[base] for base in plain.__bases__ if base in _FACADES) or (Facade,)
    if issubclass(plain, Sequence):
        bases = (*bases, Sequence)
    return cast("type[Facade]", type(plain.__name__, bases, _members(plain)))


for _plain in CLASSES:
    _FACADES[_plain] = _make(_plain)

Branch = _FACADES[branch.Branch]
Diff = _FACADES[diff.Diff]
Feed = _FACADES[feed.Feed]
Graph = _FACADES[graph.Graph]
Log = _FACADES[diff.Log]
Proposal = _FACADES[proposals.Proposal]
Snapshot = _FACADES[state.Snapshot]
Transaction = _FACADES[transaction.Transaction]
init = awaitable(graph.init)
open = awaitable(graph.open)  # noqa: A001 - what every library of files calls it
