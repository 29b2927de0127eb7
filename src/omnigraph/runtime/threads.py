"""Threads, started in one place so that each has a name and none outlives the process by accident."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

_First = TypeVar("_First")
_Second = TypeVar("_Second")


def start_thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """Start ``run`` in a daemon thread called ``omnigraph-<name>`` and return it."""
    thread = _thread(name, run)
    thread.start()
    return thread


def run_both(name: str, first: Callable[[], _First], second: Callable[[], _Second]) -> tuple[_First, _Second]:
    """Run two functions side by side, the second in a thread of that name, and return what both give.

    The thread has ended when this ends, by an interrupt too: an executor forgets a thread that an interrupt met while
    it was started, and does not wait for one that it met while it ended.
    """
    found: Future[_Second] = Future()

    def run() -> None:
        try:
            found.set_result(second())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is wanted
            found.set_exception(error)

    thread = _thread(name, run)
    try:
        thread.start()
    except KeyboardInterrupt:
        wait((found,))
        thread.join()
        raise
    try:
        return first(), found.result()
    finally:
        _join(thread)


def _thread(name: str, run: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=run, name=f"omnigraph-{name}", daemon=True)


def _join(thread: threading.Thread) -> None:
    try:
        thread.join()
    except KeyboardInterrupt:
        thread.join()
        raise
