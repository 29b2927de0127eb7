"""The servers of a run: real processes on ports of their own, killed without warning and started again."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.e2e.process import clean_environment
from tests.multiprocess.ground import Ground
from tests.warm import PROJECT

_LISTENING = "OMNIGRAPH_LISTEN_ADDR="
_WAIT_S = 300.0
# What the storage options of the endpoint are called where commands look for them.
_VARIABLES = {
    "aws_endpoint": "AWS_ENDPOINT_URL",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_region": "AWS_REGION",
    "allow_http": "AWS_ALLOW_HTTP",
}


@dataclass(eq=False)
class _Server:
    """The place of one server; a killed process is followed by another on the same port."""

    number: int
    process: subprocess.Popen[str]
    port: int = 0


@dataclass
class Servers:
    """Servers of one graph; use it as a context manager."""

    ground: Ground
    count: int
    kill_every_s: float
    kills: int = 0
    running: list[_Server] = field(default_factory=list)
    _next_s: float = 0.0

    def __post_init__(self) -> None:
        self._turns = itertools.cycle(range(self.count)) if self.count else iter(())
        self._next_s = self.kill_every_s

    def __enter__(self) -> Self:
        for number in range(self.count):
            server = _Server(number, self._start(number, 0))
            self.running.append(server)
            server.port = self._listening(server.process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.running:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGTERM)
        for server in self.running:
            try:
                server.process.wait(_WAIT_S)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
            _close(server.process)

    def addresses(self, *, first: int) -> dict[str, str]:
        """Return which worker asks which server; the first of them has this number."""
        name = self.ground.root.rstrip("/").rpartition("/")[2].removesuffix(".omni")
        return {str(first + server.number): f"http://127.0.0.1:{server.port}/graphs/{name}" for server in self.running}

    def tend(self, now_s: float, *, is_ending: bool) -> None:
        """Start who was killed again, then kill one when it is time."""
        for server in self.running:
            if server.process.poll() is not None:
                _close(server.process)
                server.process = self._start(server.number, server.port)
                self._listening(server.process)
        if self.kill_every_s and not is_ending and now_s >= self._next_s:
            server = self.running[next(self._turns)]
            server.process.kill()
            server.process.wait()
            self.kills += 1
            self._next_s = now_s + self.kill_every_s

    def findings(self) -> list[str]:
        """Return what the logs tell of faults."""
        logs = [(server.number, self._log(server.number).read_text(encoding="utf-8")) for server in self.running]
        return [f"server {number} wrote a traceback:\n{text}" for number, text in logs if "Traceback" in text]

    def _log(self, number: int) -> os.PathLike[str]:
        return self.ground.path(f"server-{number}.log")

    def _start(self, number: int, port: int) -> subprocess.Popen[str]:
        variables = {_VARIABLES[name]: value for name, value in self.ground.options.items() if name in _VARIABLES}
        command = ["omnigraph", "serve", self.ground.root, "--bind", f"127.0.0.1:{port}", "--unauthenticated"]
        with self.ground.path(f"server-{number}.log").open("a", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=PROJECT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Each write has an actor of its own, by which it is found again.
                env=clean_environment(PYTHONPATH=str(PROJECT / "src"), OMNIGRAPH_TRUST_ACTORS="1", **variables),
            )

    def _listening(self, process: subprocess.Popen[str]) -> int:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith(_LISTENING), f"a server does not start: {line!r}"
        return int(line.rpartition(":")[2])


def _close(process: subprocess.Popen[str]) -> None:
    if process.stdout is not None:
        process.stdout.close()
