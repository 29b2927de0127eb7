"""Parts of an object that are made, and whose modules are loaded, when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class late_property(Generic[T]):  # noqa: N801 - it is used as property is
    """A part that is made once, by the first thread that asks for it, and is an ordinary attribute from then on.

    Its function imports what it needs: a program that only reads never loads what writes.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self._lock = threading.RLock()
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, cls: type) -> Self: ...

    @overload
    def __get__(self, owner: object, cls: type) -> T: ...

    def __get__(self, owner: object | None, cls: type) -> Self | T:
        if owner is None:
            return self
        held = vars(owner)
        with self._lock:
            if self._name not in held:
                held[self._name] = self._make(owner)
            made: T = held[self._name]
        return made
