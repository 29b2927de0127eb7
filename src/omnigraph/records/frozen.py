"""Values with named parts that cannot change: the dataclasses of this package, made only when they are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, is_dataclass
from inspect import Signature, get_annotations, signature
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, cast, dataclass_transform

C = TypeVar("C")


class _Made:
    """Stands for what is made anew for every value."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[C]) -> type[C]:
    """Make a class what ``dataclass(frozen=True, slots=True, kw_only=True)`` makes it."""
    own = cls.__dict__
    parts = _parts(cls)
    made: Any = _slotted(cls, parts)
    every = tuple(parts.values())
    for name, method in _methods(every).items():
        is_given = name in own or (name == "__repr__" and _shows_itself(cls))
        if not is_given or (name == "__hash__" and own.get(name) is None):
            setattr(made, name, method)
    if "__init__" not in own:
        made.__init__ = _first_init(made, every)
        made.__signature__ = _LateSignature()
    return cast("type[C]", made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    part: None


# What the library says of an ordinary part, and of a frozen class.
_ORDINARY: Any = fields(_Sample)[0]._field_type  # type: ignore[attr-defined]  # noqa: SLF001 - the library has no other word
_FROZEN: Any = _Sample.__dataclass_params__  # type: ignore[attr-defined]  # put there by the library


def _parts(cls: type) -> dict[str, Field[Any]]:
    """Return the parts of a class by name, inherited ones first, as the library would find them."""
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        found |= base.__dict__.get("__dataclass_fields__", {})
    for name, annotation in get_annotations(cls).items():
        # Annotations are texts in every module of this package.
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        given = cls.__dict__.get(name, MISSING)
        part: Any = given if isinstance(given, Field) else field(default=given)
        if part.default.__class__.__hash__ is None:
            msg = f"the default of part '{name}' can change: use default_factory"
            raise ValueError(msg)
        part.name, part.type, part.kw_only, part._field_type = name, annotation, True, _ORDINARY  # noqa: SLF001 - see above
        found[name] = part
    return found


def _slotted(cls: type, parts: dict[str, Field[Any]]) -> type:
    """Return the class with a slot for each of its own parts; defaults belong to its ``__init__`` alone."""
    held: set[str] = set()
    for base in cls.__mro__[1:-1]:
        slots = base.__dict__.get("__slots__", ())
        held.update((slots,) if isinstance(slots, str) else slots)
    kept = {name: value for name, value in cls.__dict__.items() if name not in parts}
    kept.pop("__dict__", None)
    kept.pop("__weakref__", None)
    kept |= {
        "__slots__": tuple(name for name in parts if name not in held),
        "__dataclass_fields__": parts,
        "__dataclass_params__": _FROZEN,
        "__match_args__": (),
    }
    made: type = type(cls)(cls.__name__, cls.__bases__, kept)
    made.__qualname__ = cls.__qualname__
    return made


def _shows_itself(cls: type) -> bool:
    """Whether a class that is no record of its own says how its values are shown."""
    base = next(base for base in cls.__mro__ if "__repr__" in base.__dict__)
    return base is not object and not is_dataclass(base)


def _methods(every: tuple[Field[Any], ...]) -> dict[str, Callable[..., Any]]:
    """Return the methods that work with the names of the parts alone."""
    compared = _reader([one.name for one in every if one.compare])
    hashed = _reader([one.name for one in every if (one.compare if one.hash is None else one.hash)])
    shown = [one.name for one in every if one.repr]
    names = [one.name for one in every]
    read = _reader(names)

    def equals(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def show(self: object) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({parts})"

    def tell(self: object) -> tuple[Any, ...]:
        return read(self)

    def restore(self: object, state: tuple[Any, ...]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {
        "__eq__": equals,
        "__hash__": lambda self: hash(hashed(self)),
        "__repr__": recursive_repr()(show),
        "__setattr__": _refuse_change,
        "__delattr__": _refuse_change,
        "__getstate__": tell,
        "__setstate__": restore,
    }


def _reader(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return what reads the named parts of a value."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _refuse_change(value: object, name: str, _: object = None) -> None:
    msg = f"cannot change part '{name}' of {value.__class__.__qualname__}: make another one with dataclasses.replace"
    raise FrozenInstanceError(msg)


def _first_init(cls: Any, every: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Return an ``__init__`` that puts the real one in its place when it is called."""

    def init(self: object, *args: Any, **values: Any) -> None:
        cls.__init__ = _write_init(cls, every)
        cls.__init__(self, *args, **values)

    return init


def _write_init(cls: Any, every: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Return the ``__init__`` of a record: one statement for each part, as if written by hand."""
    known: dict[str, Any] = {"put": object.__setattr__, "MADE": _MADE}
    parameters, body = ["self", "*"], []
    for number, one in enumerate(every):
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
            parameters.append(given)
        # A part that nobody gives and that has no default is for __post_init__ to fill in.
        if one.init or value != one.name:
            body.append(f"put(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    head = ", ".join(parameters if len(parameters) > 2 else ["self"])
    exec(f"def __init__({head}):\n " + "\n ".join(body or ["pass"]), known)  # noqa: S102 - names of parts alone
    init: Callable[..., None] = known["__init__"]
    init.__annotations__ = {one.name: one.type for one in every if one.init} | {"return": None}
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


class _LateSignature:
    """What a record is made from, for those who ask before the first value is made."""

    def __get__(self, value: object, cls: Any) -> Signature:
        whole = signature(_write_init(cls, fields(cls)))
        return whole.replace(parameters=[one for name, one in whole.parameters.items() if name != "self"])
