"""Takes over a new revision of a cluster soon after it was applied."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import start_thread
from omnigraph.server.control.lifecycle import Reloading

_log = logging.getLogger("omnigraph.server")


class RevisionWatch:
    """Looks from time to time whether there is another revision, by one cheap call each time.

    Args:
        has_changed: whether there is one.
        reloading: takes it over.
        look_again: is told when what kept it from being taken over may pass.
        may_pass: whether an error may.
        every_ms: how long it waits in between.
        stopping: set when the server ends.
    """

    def __init__(
        self,
        has_changed: Callable[[], bool],
        reloading: Reloading,
        *,
        look_again: Callable[[], None],
        may_pass: Callable[[BaseException], bool],
        every_ms: int,
        stopping: threading.Event,
    ) -> None:
        self._has_changed = has_changed
        self._reloading = reloading
        self._look_again = look_again
        self._may_pass = may_pass
        self._every_s = every_ms / 1000
        self._stopping = stopping
        self._is_told = False

    def begin(self) -> None:
        """Watch in a thread of its own until the server ends."""
        start_thread("watch", self._watch)

    def look(self) -> None:
        """Look once, and take a new revision over. One that is broken is not tried again before it changes."""
        try:
            has_changed = self._has_changed()
        except OmnigraphError as error:
            if not self._is_told:
                _log.warning("cannot check for a new revision: %s", error.message)
            self._is_told = True
            return
        except Exception:  # noqa: BLE001 - see below
            # Whatever is wrong: a watch that ends would keep policies in force that were replaced long ago.
            if not self._is_told:
                _log.exception("cannot check for a new revision")
            self._is_told = True
            return
        self._is_told = False
        if has_changed:
            problem = self._reloading.run()
            if problem is not None and self._may_pass(problem):
                self._look_again()

    def _watch(self) -> None:
        while not self._stopping.wait(self._every_s):
            self.look()
