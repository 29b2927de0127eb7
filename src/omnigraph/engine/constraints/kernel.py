"""The relational kernel in this process: runs the texts of the set rules over Arrow tables and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from omnigraph.engine.constraints.set_rules import SetRule
from omnigraph.engine.relational import open_connection
from omnigraph.engine.scratch import ScratchFolder
from omnigraph.errors import InternalError, LimitExceeded, MemoryBudgetError
from omnigraph.records import record
from omnigraph.values import check_flag, check_whole

if TYPE_CHECKING:
    import duckdb

_MAX_THREADS = 1024
_MIB = 1 << 20


@record
class KernelSettings:
    """How much a check may use. Beyond the memory it spills to a temporary folder.

    Changes of ``parallel_from_rows`` and more are looked at by all threads; fewer rows are not worth starting any.
    ``uses_proofs`` lets a rule be taken as kept when a cheap look at the change proves so; without it every text is
    run.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    memory_limit_bytes: int = 1024 * _MIB
    threads: int = 2
    parallel_from_rows: int = 50_000
    uses_proofs: bool = True

    def __post_init__(self) -> None:
        check_whole("memory_limit_bytes", self.memory_limit_bytes, least=1)
        check_whole("threads", self.threads, least=1, most=_MAX_THREADS)
        check_whole("parallel_from_rows", self.parallel_from_rows)
        check_flag("uses_proofs", self.uses_proofs)

    def connect(self, folder: ScratchFolder) -> duckdb.DuckDBPyConnection:
        """Open an engine that keeps to these settings and spills into ``folder``."""
        return open_connection(folder, memory_bytes=self.memory_limit_bytes, threads=self.threads)


class Kernel:
    """One check run's connection, opened when the first text has to be run. Threads may share it."""

    def __init__(self, settings: KernelSettings | None = None) -> None:
        self.settings = settings or KernelSettings()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._folder: ScratchFolder | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection and remove what was spilled."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def find(
        self,
        rule: SetRule,
        relations: Callable[[], Mapping[str, pa.Table]],
        *,
        unless: Callable[[], bool],
        **bounds: int,
    ) -> pa.Table | None:
        """Return what ``rule`` finds, or None when there is nothing to find.

        Args:
            rule: the text to run.
            relations: makes what it reads; not called when nothing has to be run.
            unless: proves that it would find nothing.
            bounds: the numbers it takes.

        Raises:
            MemoryBudgetError: the relations do not fit the budget, not even with spilling.
        """
        if self.settings.uses_proofs and unless():
            return None
        tables = relations()
        with translated(rule.name, self.settings, lambda: sum(table.nbytes for table in tables.values())), self._lock:
            return self._run(rule, tables, bounds)

    def _run(self, rule: SetRule, relations: Mapping[str, pa.Table], bounds: Mapping[str, int]) -> pa.Table | None:
        connection = self._open()
        for name, columns in rule.reads.items():
            connection.register(name, relations[name].select(list(columns)))
        found = connection.sql(rule.text(**bounds)).to_arrow_table()
        for name in rule.reads:
            connection.unregister(name)
        return found if found.num_rows else None

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._folder = ScratchFolder.make("check")
            self._connection = self.settings.connect(self._folder)
        return self._connection


@contextmanager
def translated(rule: str, settings: KernelSettings, size: Callable[[], int]) -> Iterator[None]:
    """Turn what the engine raises into errors of ours; ``size`` says how many bytes it was given.

    Raises:
        MemoryBudgetError: the relations do not fit the budget, not even with spilling.
    """
    import duckdb  # noqa: PLC0415 - loaded with the first text that is run

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        limit = settings.memory_limit_bytes
        details = LimitExceeded(resource="constraint memory", limit=limit, actual=size())
        msg = f"checking rule '{rule}' needs more memory than the limit of {limit}"
        raise MemoryBudgetError(msg, details=details) from error
    except duckdb.Error as error:
        raise InternalError(f"cannot run the text of rule '{rule}': {error}") from error
