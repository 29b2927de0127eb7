"""A server of a test: a process of its own, started warm, that listens on a port of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2

from tests.e2e.process import clean_environment
from tests.warm import WarmProcess

ROOT = Path(__file__).parents[2]
LISTENING = "OMNIGRAPH_LISTEN_ADDR="
MADE = "OMNIGRAPH_BEARER_TOKEN="
# Generous: it bounds a hanging test, nothing is measured by it.
WAIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that listens; ``token`` is the one that it made for this run, if it did."""

    url: str
    process: WarmProcess
    stdout: IO[str]
    log: Path
    token: str | None = None

    def client(self, token: str | None = None, **options: Any) -> httpx2.Client:
        """Return a client of it; close it."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=WAIT_S, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@contextmanager
def run_server(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    """Run a command that serves, until the block ends."""
    shown, given = os.pipe()
    with log.open("w", encoding="utf-8") as stderr:
        process = WarmProcess(
            command[0],
            command[1:],
            cwd=Path.cwd(),
            env=clean_environment(
                PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{ROOT}", OMNIGRAPH_AUTO_MAINTENANCE="0", **(environment or {})
            ),
            out=given,
            err=stderr.fileno(),
        )
    os.close(given)
    with os.fdopen(shown, encoding="utf-8") as stdout:
        try:
            line, token = stdout.readline().strip(), None
            if line.startswith(MADE):
                line, token = stdout.readline().strip(), line.removeprefix(MADE)
            assert line.startswith(LISTENING), f"{line!r}: {log.read_text(encoding='utf-8')}"
            url = f"http://{line.removeprefix(LISTENING)}"
            yield RunningServer(url=url, process=process, stdout=stdout, log=log, token=token)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT_S)
