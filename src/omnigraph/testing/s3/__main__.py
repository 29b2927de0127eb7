"""The endpoint's own process: ``python -m omnigraph.testing.s3 <bucket>``.

Writes its port as one line of JSON to standard output and serves until standard input ends or its parent is gone.

The loop's usual selector rounds every wait up to a whole millisecond. Over a chain of calls that would read as part
of a further hop.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import selectors
import signal
import sys
from typing import Final

from omnigraph.testing.s3.backend import MotoStore
from omnigraph.testing.s3.front import Front, answer_control

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


# A forked sibling can hold our standard input open after the parent died, so its end is not the only sign.
_PARENT_POLL_S: Final = 1.0


async def serve(bucket: str) -> None:
    """Serve one bucket until it is time to stop."""
    parent = os.getppid()
    front = Front(MotoStore(bucket).apply, answer_control)
    server = await front.listen()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # Ctrl-C reaches the whole process group; the parent decides when the endpoint ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def read_input() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    loop.add_reader(sys.stdin.fileno(), read_input)
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    while not stop.is_set() and os.getppid() == parent:
        try:
            await asyncio.wait_for(stop.wait(), _PARENT_POLL_S)
        except TimeoutError:
            continue
    server.close()


def main() -> None:
    """Run the endpoint."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Each client keeps a pool of idle connections for a while; a run of tests has many clients.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))
    with asyncio.Runner(loop_factory=exact_event_loop) as runner:
        runner.run(serve(sys.argv[1]))


if __name__ == "__main__":
    main()
