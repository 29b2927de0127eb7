"""Threads, started in one place so that each has a name and none outlives the process by accident."""

from __future__ import annotations

import threading
from collections.abc import Callable


def start_thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """Start ``run`` in a daemon thread called ``omnigraph-<name>`` and return it."""
    thread = threading.Thread(target=run, name=f"omnigraph-{name}", daemon=True)
    thread.start()
    return thread
