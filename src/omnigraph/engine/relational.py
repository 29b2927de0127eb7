"""The relational engine inside this process: DuckDB, shut off from files and the network."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from omnigraph.engine.scratch import ScratchFolder
from omnigraph.records import record

if TYPE_CHECKING:
    import duckdb

_MIB = 1 << 20
# Engines that wait for the next read; further ones end with the read that opened them.
_IDLE_ENGINES = 2


def open_connection(folder: ScratchFolder, *, memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """Open an engine that keeps to its memory, spills into ``folder`` and reads nothing that it is not given."""
    # Loading the engine takes longer than most writes, and most writes are proven clean.
    import duckdb  # noqa: PLC0415 - see above

    config: dict[str, Any] = {
        "threads": threads,
        "memory_limit": _size(memory_bytes),
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


def _size(memory_bytes: int) -> str:
    return f"{max(memory_bytes // _MIB, 1)}MiB"


@record
class RelationalEngine:
    """An engine with one thread, and the folder that it spills into."""

    connection: duckdb.DuckDBPyConnection
    folder: ScratchFolder

    def close(self) -> None:
        """End the engine and remove what was spilled."""
        self.connection.close()
        self.folder.close()


class RelationalEngines:
    """Engines that reads use one after the other: to open one takes longer than most reads. Threads may share it."""

    def __init__(self, most_idle: int = _IDLE_ENGINES) -> None:
        self._lock = threading.Lock()
        self._idle: list[RelationalEngine] = []
        self._most_idle = most_idle
        self.opened = 0
        # A graph that nobody closes leaves no folder behind either.
        weakref.finalize(self, _close_all, self._idle)

    def take(self, memory_bytes: int) -> RelationalEngine:
        """Return an engine that keeps to so much memory, and that is given back or closed later."""
        with self._lock:
            engine = self._idle.pop() if self._idle else None
        if engine is not None:
            engine.connection.execute(f"SET memory_limit = '{_size(memory_bytes)}'")
            return engine
        folder = ScratchFolder.make("query")
        # One thread: sums of floats then come out the same every time.
        engine = RelationalEngine(
            connection=open_connection(folder, memory_bytes=memory_bytes, threads=1), folder=folder
        )
        self.opened += 1
        return engine

    def give_back(self, engine: RelationalEngine) -> None:
        """Keep an engine for the next read, unless it has spilled, or enough others wait."""
        has_spilled = any(engine.folder.path.iterdir())
        with self._lock:
            is_kept = not has_spilled and len(self._idle) < self._most_idle
            if is_kept:
                self._idle.append(engine)
        if not is_kept:
            engine.close()

    def close(self) -> None:
        """End the engines that wait; one that is in use ends when it is given back."""
        with self._lock:
            self._most_idle = 0
            _close_all(self._idle)


def _close_all(engines: list[RelationalEngine]) -> None:
    while engines:
        engines.pop().close()
