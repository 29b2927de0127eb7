"""The process and its machine: threads, started in one place, and how much memory there is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextvars import Context
from functools import cache
from pathlib import Path
from typing import TypeVar

from omnigraph.runtime.counters import in_context

_First = TypeVar("_First")
_Second = TypeVar("_Second")


def start_thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """Start ``run`` in a daemon thread called ``omnigraph-<name>`` and return it.

    It runs in a context of its own: what serves many callers must not count its work for the one who came first. What
    belongs to its caller goes through :func:`in_context`.
    """
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

    thread = _thread(name, in_context(run))
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
    # Later versions of Python may let a thread begin with the context of its starter.
    return threading.Thread(target=Context().run, args=(run,), name=f"omnigraph-{name}", daemon=True)


def _join(thread: threading.Thread) -> None:
    try:
        thread.join()
    except KeyboardInterrupt:
        thread.join()
        raise


# Where nothing tells, such as on a system without either way to ask.
_UNKNOWN_BYTES = 4 << 30


@cache
def memory_bytes() -> int:
    """Return how much memory this process may use: that of the machine, or less where a control group allows less."""
    return min(_physical_bytes(), *group_limits(Path("/")), 1 << 62)


def group_limits(root: Path) -> Iterator[int]:
    """Yield the memory limits of the control groups that this process is in, of either version of them.

    Args:
        root: the directory that ``/proc`` and ``/sys`` are in.
    """
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # A group is bound by those that it lies in. Inside a container the path may be that of the host, and only the
        # top is there to be seen.
        group = base / path.strip().lstrip("/")
        for place in (group, *group.parents):
            yield from _limit(place / name)
            if place == base:
                break


def _limit(file: Path) -> Iterator[int]:
    for text in _lines(file)[:1]:
        # "max", and on version 1 a number near the largest, say that there is none.
        if text.strip().isdigit():
            yield int(text)


def _physical_bytes() -> int:
    try:
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_BYTES


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def trim_heap() -> None:
    """Give memory back to the system that was freed but is kept by the heaps of threads, where the system can.

    What native code has used for one piece of a large work would otherwise stay with each of its threads.
    """
    import ctypes  # noqa: PLC0415 - loaded for large work only

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    # Only the C library of GNU has it.
    if trim is not None:
        trim(0)
