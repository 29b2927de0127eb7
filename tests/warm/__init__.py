"""Processes of their own that start with everything imported.

Importing the product's libraries takes most of the time of a short process. A server imports them once and forks for
every request, before any of them has been used: no thread of Lance exists at that moment. What runs in the fork is
a real process with its own arguments, environment, folder and standard streams, and can be killed like one.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.warm.protocol import SOCKET_VARIABLE, ask

PROJECT = Path(__file__).parents[2]

# Read once, here: a test that gives its temporary files a place of their own must not find the server's folder there.
_TEMPORARY = tempfile.gettempdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a process left behind; a negative code is the signal that ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_warm(
    module: str,
    arguments: Sequence[str] = (),
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float = 300,
) -> Ended:
    """Run ``python -m module`` and wait for its end.

    Raises:
        subprocess.TimeoutExpired: it took too long; it was killed.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        with ask(
            server_address(), [module, *arguments], str(cwd), env, (given.fileno(), out.fileno(), err.fileno())
        ) as line:
            pid = line.pid()
            try:
                code = line.exit_code(timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired([module, *arguments], timeout) from None
        out.seek(0)
        err.seek(0)
        return Ended(returncode=code, stdout=out.read(), stderr=err.read())


class WarmProcess:
    """A process that runs on its own; what tests use of ``subprocess.Popen``."""

    def __init__(
        self, module: str, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], out: int, err: int
    ) -> None:
        self._open = ExitStack()
        self.returncode: int | None = None
        with Path(os.devnull).open("rb") as nothing:
            asking = ask(server_address(), [module, *arguments], str(cwd), env, (nothing.fileno(), out, err))
            self._line = self._open.enter_context(asking)
        self.pid = self._line.pid()

    def poll(self) -> int | None:
        """Return how the process ended, None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return how it came.

        Raises:
            subprocess.TimeoutExpired: it takes longer.
        """
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def kill(self) -> None:
        """End the process without warning."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            # It may end right here.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._line.has_ended(timeout):
            self.returncode = self._line.exit_code(None)
            self._open.close()
        return self.returncode


@functools.cache
def server_address() -> str:
    """Start the server, once per test process, and return where it listens."""
    folder = fresh_folder()
    address = str(folder / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    # It ends with this process, whose end of the pipe closes whatever happens to it.
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm.server", str(listener.fileno())],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        pass_fds=(listener.fileno(),),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    listener.close()

    def end() -> None:
        server.kill()
        server.wait()
        Path(address).unlink(missing_ok=True)
        folder.rmdir()

    atexit.register(end)
    return address


def fresh_folder() -> Path:
    """Make a folder for a server, wherever temporary files of the running test go."""
    return Path(tempfile.mkdtemp(prefix="warm-", dir=_TEMPORARY))


def warm_command(module: str) -> str:
    """Return a shell command that runs a module in a warm process, for scripts that call it by name."""
    client = Path(__file__).with_name("client.py")
    return f'{SOCKET_VARIABLE}="{server_address()}" exec "{sys.executable}" -S -E "{client}" {module}'
