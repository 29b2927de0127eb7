"""An event loop whose waits are exact to some tens of microseconds.

The loop's usual selector rounds every wait up to a whole millisecond. Over a chain of calls that would read as part
of a further hop.
"""

from __future__ import annotations

import asyncio
import select
import selectors

if hasattr(selectors, "EpollSelector"):

    class _ExactSelector(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0:
                # An epoll descriptor can itself be waited for, and this call takes microseconds.
                select.select([self.fileno()], [], [], timeout)
                timeout = 0
            return super().select(timeout)

    _selector: type[selectors.BaseSelector] = _ExactSelector
else:
    _selector = selectors.DefaultSelector


def exact_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop with exact waits."""
    return asyncio.SelectorEventLoop(_selector())
