"""The relational engine inside this process: DuckDB, shut off from files and the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.engine.scratch import ScratchFolder

if TYPE_CHECKING:
    import duckdb

_MIB = 1 << 20


def open_connection(folder: ScratchFolder, *, memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """Open an engine that keeps to its memory, spills into ``folder`` and reads nothing that it is not given."""
    # Loading the engine takes longer than most writes, and most writes are proven clean.
    import duckdb  # noqa: PLC0415 - see above

    config: dict[str, Any] = {
        "threads": threads,
        "memory_limit": f"{max(memory_bytes // _MIB, 1)}MiB",
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
