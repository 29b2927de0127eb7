"""The relational engine inside this process: DuckDB, shut off from files and the network."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from omnigraph.engine.scratch import ScratchFolder
from omnigraph.records import record

if TYPE_CHECKING:
    import duckdb

_MIB = 1 << 20
_MOST_IDLE = 2


def open_connection(folder: ScratchFolder, *, memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """Open an engine that keeps to its memory, spills into ``folder`` and reads nothing that it is not given."""
    # Loading the engine takes longer than most writes, and most writes are proven clean.
    import duckdb  # noqa: PLC0415 - see above

    config: dict[str, Any] = {
        "threads": threads,
        "memory_limit": _memory_limit(memory_bytes),
        "temp_directory": str(folder.path),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        # A relation is what was registered, never a variable of some caller or a file of that name.
        "python_enable_replacements": False,
    }
    connection = duckdb.connect(":memory:", config=config)
    # Refuses the temporary folder when it is given in the same breath.
    connection.execute("SET enable_external_access = false")
    return connection


def _memory_limit(memory_bytes: int) -> str:
    return f"{max(memory_bytes // _MIB, 1)}MiB"


@record
class RelationalEngine:
    """An engine with one thread, so that sums of floats come out the same every time, and the folder it spills into."""

    connection: duckdb.DuckDBPyConnection
    folder: ScratchFolder
    process: int

    @classmethod
    def start(cls, memory_bytes: int) -> RelationalEngine:
        """Start an engine."""
        folder = ScratchFolder.make("query")
        connection = open_connection(folder, memory_bytes=memory_bytes, threads=1)
        return cls(connection=connection, folder=folder, process=os.getpid())

    def limit(self, memory_bytes: int) -> None:
        """Let the engine use so much memory from now on."""
        self.connection.execute(f"SET memory_limit = '{_memory_limit(memory_bytes)}'")

    def close(self) -> None:
        """End the engine and remove what it spilled."""
        self.connection.close()
        self.folder.close()


class EnginePool:
    """Engines that have nothing to do, kept because starting one takes longer than most reads. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[RelationalEngine] = []
        self._is_closed = False
        self._ending = weakref.finalize(self, _close_all, self._idle)

    def take(self, memory_bytes: int) -> RelationalEngine:
        """Return an engine that nothing else uses until it is given back."""
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is None:
            return RelationalEngine.start(memory_bytes)
        if idle.process != os.getpid():
            # It belongs to the process that this one was forked from, and so do the threads that it needs.
            return RelationalEngine.start(memory_bytes)
        idle.limit(memory_bytes)
        return idle

    def give_back(self, engine: RelationalEngine) -> None:
        """Keep an engine that has finished for the next read, unless it has spilled or enough are kept."""
        has_spilled = any(engine.folder.path.iterdir())
        with self._lock:
            is_kept = not self._is_closed and not has_spilled and len(self._idle) < _MOST_IDLE
            if is_kept:
                self._idle.append(engine)
        if not is_kept:
            engine.close()

    def close(self) -> None:
        """End every engine that has nothing to do, and every other one when it is given back."""
        with self._lock:
            self._is_closed = True
        self._ending()


def _close_all(idle: list[RelationalEngine]) -> None:
    while idle:
        engine = idle.pop()
        if engine.process == os.getpid():
            engine.close()
