"""How a server ends and how it takes over a new configuration, without failing requests that are under way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import start_thread
from omnigraph.server.control.control import Control

_log = logging.getLogger("omnigraph.server")
ENDED, CUT_OFF = 0, 1


class Ending:
    """The end of a server: first it says so, then it takes no more connections, then it waits, then it ends.

    Args:
        control: is told that the server drains.
        later: calls something after some seconds, on the event loop.
        stop: makes the server take no more connections and drain.
        force: makes it end at once.
    """

    def __init__(
        self,
        control: Control,
        later: Callable[[float, Callable[[], None]], object],
        stop: Callable[[], None],
        force: Callable[[], None],
    ) -> None:
        self._control = control
        self._later = later
        self._stop = stop
        self._force = force

    def begin(self) -> None:
        """Begin to end; the second time, end at once."""
        control = self._control
        if control.is_draining:
            _log.warning("stopping immediately")
            control.stopping.set()
            self._force()
            return
        control.is_draining = True
        _log.info("draining: waiting for %s running requests", control.under_way)
        if control.settings.notice_s:
            self._later(control.settings.notice_s, self._stop)
        else:
            self._stop()
        self._later(control.settings.notice_s + control.settings.drain_s, control.stopping.set)


def finish(control: Control, close: Callable[[], None]) -> int:
    """Close the graphs after the last connection, and return the exit code.

    0: everything that was under way has ended. 1: requests were cut off, or something did not end in time.
    """
    cut_off = control.under_way + control.cut_off
    control.stopping.set()
    closing = start_thread("close", close)
    # Reads were told to stop; writes that have claimed their version get as long again as requests had.
    closing.join(control.settings.drain_s)
    if closing.is_alive():
        _log.error("operations did not end in time; interrupted writes are recovered by the next writer")
    if cut_off:
        _log.warning("%s requests were cut off", cut_off)
    return CUT_OFF if cut_off or closing.is_alive() else ENDED


class Reloading:
    """Takes over a new configuration when asked to; one that is broken is refused, and the old one stays.

    Args:
        reload: reads the configuration and puts it in place.
    """

    def __init__(self, reload: Callable[[], str]) -> None:
        self._reload = reload
        self._lock = threading.Lock()
        self._told: str | None = None

    def begin(self) -> None:
        """Reload in a thread of its own: opening graphs takes time, and requests go on meanwhile."""
        self._told = None
        start_thread("reload", self._run)

    def run(self) -> Exception | None:
        """Reload now and return why that failed, if it did; the log says how it went, and the same reason once."""
        with self._lock:
            try:
                told = self._reload()
            except OmnigraphError as error:
                if error.message != self._told:
                    _log.error("the new configuration was refused, the old one stays in use: %s", error.message)
                self._told = error.message
                return error
            except Exception as bug:  # noqa: BLE001 - whatever is wrong with it, the old configuration goes on
                _log.exception("the new configuration was refused, the old one stays")
                return bug
            self._told = None
            _log.info("the new configuration is in force: %s", told)
            return None

    def _run(self) -> None:
        self.run()
