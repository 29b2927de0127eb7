"""Values with named parts: the dataclasses of this package, which cost little until they are used."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from functools import cache, cached_property
from inspect import Signature, signature
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

C = TypeVar("C")


class _Made:
    """Stands for what is made anew for every value."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


@overload
def record(cls: type[C], /) -> type[C]: ...


@overload
def record(
    *,
    frozen: bool = True,
    kw_only: bool = True,
    slots: bool = True,
    eq: bool = True,
    order: bool = False,
    repr: bool = True,
    weakref_slot: bool = False,
) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, **words: bool) -> Any:
    """Make a class what ``dataclass(frozen=True, slots=True, kw_only=True)`` makes it.

    Words of ``dataclass`` that are given take the place of these.
    """
    asked = _ORDINARY_WORDS | words
    return (lambda cls: _made(cls, dict(asked))) if cls is None else _made(cls, asked)


_ORDINARY_WORDS = {
    "frozen": True,
    "kw_only": True,
    "slots": True,
    "eq": True,
    "order": False,
    "repr": True,
    "weakref_slot": False,
}


@dataclass(init=False, repr=False, eq=False)
class _Sample:
    part: None


# What the library says of an ordinary part, of a class that can change and of a frozen one.
_ORDINARY: Any = _Sample.__dataclass_fields__["part"]._field_type  # type: ignore[attr-defined]  # noqa: SLF001 - the library has no other word
_CHANGING: Any = _Sample.__dataclass_params__  # type: ignore[attr-defined]  # put there by the library
_FROZEN: Any = copy(_CHANGING)
_FROZEN.frozen = True


def _made(cls: type, words: dict[str, bool]) -> type:
    kw_only, weakref_slot = words.pop("kw_only"), words.pop("weakref_slot")
    parts = _Parts(cls, kw_only=kw_only, frozen=words["frozen"])
    own = cls.__dict__
    added: dict[str, Any] = {
        "__dataclass_fields__": parts,
        "__dataclass_params__": _FROZEN if parts.frozen else _CHANGING,
        "__match_args__": () if kw_only else parts.placed(),
    }
    methods = _methods(parts)
    for name in _method_names(**words):
        # A class that says what equals it says by that that it has no hash.
        is_given = name in own and (name != "__hash__" or own[name] is not None)
        if not is_given and (name != "__repr__" or not _shows_itself(cls)):
            added[name] = methods[name] if name in methods else _comparison(parts, name)
    if "__init__" not in own:
        added |= {"__init__": _first_init(parts), "__signature__": _LateSignature(parts)}
    if words["slots"]:
        parts.cls = _slotted(cls, parts, added, weakref_slot=weakref_slot)
    else:
        _extend(cls, parts, added)
    return parts.cls


@cache
def _method_names(*, frozen: bool, slots: bool, eq: bool, order: bool, repr: bool) -> tuple[str, ...]:  # noqa: A002 - see above
    """Return the methods that a class gets unless it has them."""
    return (
        *(("__repr__",) if repr else ()),
        *(("__eq__", "__hash__") if eq else ()),
        *(("__lt__", "__le__", "__gt__", "__ge__") if order else ()),
        *(("__setattr__", "__delattr__") if frozen else ()),
        *(("__getstate__", "__setstate__") if frozen and slots else ()),
    )


class _Parts:
    """The parts of a class, described as the library does when somebody asks."""

    def __init__(self, cls: type, *, kw_only: bool, frozen: bool) -> None:
        self.cls = cls
        self.frozen = frozen
        self._kw_only = kw_only
        own = cls.__dict__
        # Annotations are texts in every module of this package.
        self._annotations = {
            name: annotation
            for name, annotation in cls.__annotations__.items()
            if not str(annotation).startswith(("ClassVar", "typing.ClassVar"))
        }
        self.given = {name: own[name] for name in self._annotations if name in own}
        for name, given in self.given.items():
            default = given.default if isinstance(given, Field) else given
            if default.__class__.__hash__ is None:
                msg = f"the default of part '{name}' can change: use default_factory"
                raise ValueError(msg)
        # In order, inherited ones first.
        self.names: dict[str, None] = {}
        for base in cls.__mro__[-2:0:-1]:
            self.names |= dict.fromkeys(_names_of(base))
        self.names |= dict.fromkeys(self._annotations)

    def __get__(self, value: object, cls: type) -> dict[str, Field[Any]]:
        """Tell the library what the parts are."""
        self.cls.__dataclass_fields__ = self.every  # type: ignore[attr-defined]  # so that nobody asks again
        return self.every

    @cached_property
    def every(self) -> dict[str, Field[Any]]:
        """The parts by name, inherited ones first, as the library would find them."""
        found: dict[str, Field[Any]] = {}
        for base in self.cls.__mro__[-1:0:-1]:
            if "__dataclass_fields__" in base.__dict__:
                found |= base.__dataclass_fields__  # type: ignore[attr-defined]  # as just seen
        for name, annotation in self._annotations.items():
            given = self.given.get(name, MISSING)
            part: Any = given if isinstance(given, Field) else field(default=given)
            part.name, part.type, part._field_type = name, annotation, _ORDINARY  # noqa: SLF001 - see above
            part.kw_only = self._kw_only if part.kw_only is MISSING else part.kw_only
            found[name] = part
        return found

    def placed(self) -> tuple[str, ...]:
        """Return the names of those that can be given without their names."""
        return tuple(one.name for one in self.every.values() if one.init and not one.kw_only)

    @cached_property
    def _filling(self) -> list[tuple[str, Any, Any, bool]]:
        """Per part its name, its default, what makes its default, and whether it can be given."""
        return [(one.name, one.default, one.default_factory, one.init) for one in self.every.values()]

    def fill(self, value: object, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        """Give a new value its parts; whether the arguments are all of those it needs, and no other."""
        if args:
            names = self.placed()[: len(args)]
            if len(names) < len(args) or not given.keys().isdisjoint(names):
                return False
            given = dict(zip(names, args, strict=True)) | given
        put, unused = object.__setattr__, len(given)
        for name, default, make, is_argument in self._filling:
            if is_argument and name in given:
                put(value, name, given[name])
                unused -= 1
            elif make is not MISSING:
                put(value, name, make())
            elif default is not MISSING:
                put(value, name, default)
            elif is_argument:
                return False
        if unused:
            return False
        if hasattr(value, "__post_init__"):
            value.__post_init__()
        return True

    @cached_property
    def compared(self) -> Callable[[object], tuple[Any, ...]]:
        """Reads what is compared."""
        return _reader([one.name for one in self.every.values() if one.compare])

    @cached_property
    def hashed(self) -> Callable[[object], tuple[Any, ...]]:
        """Reads what is hashed."""
        return _reader([one.name for one in self.every.values() if (one.compare if one.hash is None else one.hash)])

    @cached_property
    def all(self) -> Callable[[object], tuple[Any, ...]]:
        """Reads everything."""
        return _reader(list(self.names))

    @cached_property
    def show(self) -> Callable[[object], str]:
        """Writes a value as the call that makes it."""
        shown = [one.name for one in self.every.values() if one.repr]

        def show(value: object) -> str:
            parts = ", ".join(f"{name}={getattr(value, name)!r}" for name in shown)
            return f"{value.__class__.__qualname__}({parts})"

        return recursive_repr()(show)


def _names_of(base: type) -> Any:
    """Return the names of the parts of a class from which another one inherits."""
    described = base.__dict__.get("__dataclass_fields__", ())
    return described.names if isinstance(described, _Parts) else described


def _slotted(cls: type, parts: _Parts, added: dict[str, Any], *, weakref_slot: bool) -> type:
    """Return the class with a slot for each of its own parts; defaults belong to its ``__init__`` alone."""
    held: set[str] = set()
    for base in cls.__mro__[1:-1]:
        slots = base.__dict__.get("__slots__", ())
        held.update((slots,) if isinstance(slots, str) else slots)
    kept = {name: value for name, value in cls.__dict__.items() if name not in parts.names}
    kept.pop("__dict__", None)
    kept.pop("__weakref__", None)
    wanted = (*parts.names, "__weakref__") if weakref_slot else parts.names
    kept["__slots__"] = tuple(name for name in wanted if name not in held)
    kept["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, kept | added)


def _extend(cls: type, parts: _Parts, added: dict[str, Any]) -> None:
    """Put into a class what makes it a record; its values can hold more than their parts."""
    for name, given in parts.given.items():
        if isinstance(given, Field):
            if given.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, given.default)
    for name, value in added.items():
        setattr(cls, name, value)


def _shows_itself(cls: type) -> bool:
    """Whether a class that is no record of its own says how its values are shown."""
    base = next(base for base in cls.__mro__ if "__repr__" in base.__dict__)
    return base is not object and "__dataclass_fields__" not in base.__dict__


def _methods(parts: _Parts) -> dict[str, Any]:
    """Return the methods that do not order values; what they read is found out by their first call."""

    def equals(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return parts.compared(self) == parts.compared(other)

    def hashed(self: object) -> int:
        return hash(parts.hashed(self))

    def show(self: object) -> str:
        return parts.show(self)

    def tell(self: object) -> tuple[Any, ...]:
        return parts.all(self)

    def restore(self: object, state: tuple[Any, ...]) -> None:
        for name, value in zip(parts.names, state, strict=True):
            object.__setattr__(self, name, value)

    return {
        "__eq__": equals,
        "__hash__": hashed if parts.frozen else None,
        "__repr__": show,
        "__setattr__": _refuse_change,
        "__delattr__": _refuse_change,
        "__getstate__": tell,
        "__setstate__": restore,
    }


def _comparison(parts: _Parts, name: str) -> Callable[[object, object], Any]:
    """Return a method that orders values of one class."""

    def compare(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return getattr(parts.compared(self), name)(parts.compared(other))

    return compare


def _reader(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return what reads the named parts of a value."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _refuse_change(value: object, name: str, _: object = None) -> None:
    msg = f"cannot change part '{name}' of {value.__class__.__qualname__}: make another one with dataclasses.replace"
    raise FrozenInstanceError(msg)


# Of a class with more values than this an __init__ is written, which takes as long as some dozens of them do without.
_FEW = 8


def _first_init(parts: _Parts) -> Callable[..., None]:
    """Return an ``__init__`` for the first values of a class: many classes have no more than a few."""
    made = 0

    def init(self: object, *args: Any, **values: Any) -> None:
        nonlocal made
        made += 1
        if made > _FEW or not parts.fill(self, args, values):
            # It also says what is wrong with arguments.
            written = _write_init(parts)
            parts.cls.__init__ = written  # type: ignore[misc]  # from now on it is called at once
            written(self, *args, **values)

    return init


def _write_init(parts: _Parts) -> Callable[..., None]:
    """Return the ``__init__`` of a record: one statement for each part, as if written by hand."""
    known: dict[str, Any] = {"put": object.__setattr__, "MADE": _MADE}
    placed: list[str] = []
    named: list[str] = []
    body = []
    for number, one in enumerate(parts.every.values()):
        value, given = one.name, one.name
        if one.default_factory is not MISSING:
            known[f"make{number}"] = one.default_factory
            value = f"make{number}() if {one.name} is MADE else {one.name}" if one.init else f"make{number}()"
            given = f"{one.name}=MADE"
        elif one.default is not MISSING:
            known[f"default{number}"] = one.default
            value = one.name if one.init else f"default{number}"
            given = f"{one.name}=default{number}"
        if one.init:
            (named if one.kw_only else placed).append(given)
        # A part that nobody gives and that has no default is for __post_init__ to fill in.
        if one.init or value != one.name:
            body.append(f"put(self, {one.name!r}, {value})" if parts.frozen else f"self.{one.name} = {value}")
    if hasattr(parts.cls, "__post_init__"):
        body.append("self.__post_init__()")
    head = ", ".join(["self", *placed, *(["*", *named] if named else [])])
    exec(f"def __init__({head}):\n " + "\n ".join(body or ["pass"]), known)  # noqa: S102 - names of parts alone
    init: Callable[..., None] = known["__init__"]
    init.__annotations__ = {one.name: one.type for one in parts.every.values() if one.init} | {"return": None}
    init.__qualname__, init.__module__ = f"{parts.cls.__qualname__}.__init__", parts.cls.__module__
    return init


class _LateSignature:
    """What a record is made from, for those who ask before the first value is made."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    def __get__(self, value: object, cls: Any) -> Signature:
        whole = signature(_write_init(self._parts))
        return whole.replace(parameters=[one for name, one in whole.parameters.items() if name != "self"])
