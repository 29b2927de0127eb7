"""Parts of an object that are made, and whose modules are loaded, when they are first asked for."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


@contextmanager
def loading(*, much: bool = False) -> Iterator[None]:
    """Load modules without looking for garbage: they stay, and what a process holds besides takes long to go through.

    With ``much`` what is there at the end counts as old, as if a collection had found no garbage in it; a program that
    has frozen its objects keeps them frozen, and finding that out takes a while.
    """
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            if much and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


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
                with loading():
                    held[self._name] = self._make(owner)
            made: T = held[self._name]
        return made
