"""Quiet maintenance: after a number of commits a thread of the process tidies up what they left.

It never holds anything that a writer waits for while it works: only the publish of its outcome takes its turn on the
branch, like any other commit. Nobody is told when it fails, because nothing depends on it; the log is.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from omnigraph.errors import BadValue, BranchMissingError, OmnigraphError, ValueFormatError
from omnigraph.records import record
from omnigraph.runtime import Clock, start_thread
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import SETTLE_S
from omnigraph.values import BranchName, check_number, check_whole

_log = logging.getLogger(__name__)

# It begins when nobody has committed for a moment, or when they will not stop.
_PAUSE_S = 0.05
_LONGEST_WAIT_S = 2.0
_OWN = frozenset({WriteKind.OPTIMIZE.value, WriteKind.ENSURE_INDICES.value})

Tidy = Callable[[BranchName, Callable[[], bool]], object]


class AutoMaintenance:
    """Counts the commits of one process, and tidies up branches that got many.

    Args:
        tidy: what to do about a branch; it is given a function that says when to stop.
        every: after how many commits; 0 is never.
        clock: what it waits by.
    """

    def __init__(self, tidy: Tidy, every: int, clock: Clock) -> None:
        self._tidy = tidy
        self._every = every
        self._clock = clock
        # Entered as a plain lock: an interrupt can leave a condition locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._counts: dict[BranchName, int] = {}
        self._due: list[BranchName] = []
        self._last_s = 0.0
        self._is_started = False
        self._is_closed = False
        self._ended = threading.Event()

    def note(self, branch: BranchName, commits: Sequence[Commit]) -> None:
        """Take note of commits that were published; returns at once."""
        count = sum(commit.operation not in _OWN for commit in commits)
        if not count or not self._every:
            return
        with self._lock:
            self._last_s = self._clock.monotonic_s()
            self._counts[branch] = self._counts.get(branch, 0) + count
            if self._counts[branch] < self._every or self._is_closed:
                return
            self._counts[branch] = 0
            if branch not in self._due:
                self._due.append(branch)
            if not self._is_started:
                self._is_started = True
                # A graph that nobody closes ends with its program: a thread that is inside a library by then takes the
                # process down with it.
                atexit.register(self.close)
                start_thread("upkeep", self._run)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, after the piece of work that is under way; harmless when closed already."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
            is_running = self._is_started
        if is_running:
            self._ended.wait()
            atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            self._ended.set()

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._changed.wait_for(lambda: self._is_closed or self._due)
                if self._is_closed:
                    return
                branch = self._due.pop(0)
            self._wait_for_pause()
            try:
                self._tidy(branch, self._is_stopped)
            except BranchMissingError:
                # A branch that was deleted meanwhile needs no maintenance.
                self._forget(branch)
            except OmnigraphError as error:
                _log.warning("automatic maintenance of branch '%s' failed: %s", branch, error)
            except Exception:  # noqa: BLE001 - a thread that nobody waits for: a bug in it must not end it silently
                if not threading.main_thread().is_alive():
                    # The program ends, and threads that would help cannot be had any more.
                    return
                _log.exception("automatic maintenance of branch '%s' failed", branch)

    def _forget(self, branch: BranchName) -> None:
        with self._lock:
            self._counts.pop(branch, None)

    def _wait_for_pause(self) -> None:
        started_s = self._clock.monotonic_s()
        while not self._is_stopped():
            now_s = self._clock.monotonic_s()
            if now_s - self._last_s >= _PAUSE_S or now_s - started_s >= _LONGEST_WAIT_S:
                return
            self._clock.sleep(_PAUSE_S)

    def _is_stopped(self) -> bool:
        return self._is_closed


CONCURRENCY_VARIABLE = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"
AUTO_VARIABLE = "OMNIGRAPH_AUTO_MAINTENANCE"
_DEFAULT_THREADS = 8
_DEFAULT_EVERY = 64
_MAX_THREADS = 256
_LONGEST_S = 100 * 365 * 86400.0


@record
class MaintenanceSettings:
    """Settings of maintenance.

    Args:
        threads: how many pieces of work run side by side.
        auto_every: after how many commits of this process to a branch its tables are tidied up in the background;
            0 switches that off.
        auto_max_rows: leave out background work that would rewrite more rows at once.
        projection_rows: tables with fewer rows get no projections, as they are read as quickly without.
        auto_projection_rows: leave projections that are made from more rows to optimize.
        load_projection_rows: a load that brings a table fewer rows leaves its projections to the others.
        unnamed_age_s: how old a file that no state names must be before a cleanup removes it; a write that takes
            longer than that from its first file to its commit has to upload again.
        settle_s: how long a cleanup waits for branches that are being made; less only where nobody makes any.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    threads: int = _DEFAULT_THREADS
    auto_every: int = _DEFAULT_EVERY
    auto_max_rows: int = 1 << 18
    projection_rows: int = 1 << 12
    auto_projection_rows: int = 1 << 22
    load_projection_rows: int = 1 << 16
    unnamed_age_s: float = 7 * 86400.0
    settle_s: float = SETTLE_S

    def __post_init__(self) -> None:
        check_whole("threads", self.threads, least=1, most=_MAX_THREADS)
        check_whole("auto_every", self.auto_every)
        for name in ("auto_max_rows", "projection_rows", "auto_projection_rows", "load_projection_rows"):
            check_whole(name, getattr(self, name))
        check_number("unnamed_age_s", self.unnamed_age_s, most=_LONGEST_S)
        check_number("settle_s", self.settle_s, most=_LONGEST_S)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> MaintenanceSettings:
        """Return the settings that the environment asks for.

        Raises:
            ValueFormatError: a variable holds no number, or none that makes sense.
        """
        found = os.environ if environment is None else environment
        return cls(
            threads=_number(found, CONCURRENCY_VARIABLE, _DEFAULT_THREADS, least=1, most=_MAX_THREADS),
            auto_every=_number(found, AUTO_VARIABLE, _DEFAULT_EVERY, least=0),
        )


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int, most: int = 1 << 31) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(most)) + 1 else -1
    if not least <= number <= most:
        details = BadValue(what=name, value=text, expected=f"a number from {least} to {most}")
        raise ValueFormatError(f"invalid number {text!r} for {name}", details=details)
    return number
