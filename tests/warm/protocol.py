"""How a client asks the server for a process: one message with the standard streams, two answers."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

SOCKET_VARIABLE = "OMNIGRAPH_TESTS_WARM"
_LARGEST = 1 << 20


class Line:
    """The open question: tells the process id, then how the process ended."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        # Unbuffered, so that what select sees is what a read would get.
        self._answers = connection.makefile("rb", buffering=0)

    def pid(self) -> int:
        """Return the id of the process once it runs."""
        return int(self._answers.readline())

    def has_ended(self, timeout: float | None) -> bool:
        """Whether the process ends within that time."""
        return bool(select.select([self._connection], [], [], timeout)[0])

    def exit_code(self, timeout: float | None) -> int:
        """Wait for the end; a negative code is the signal that ended the process."""
        self._connection.settimeout(timeout)
        return int(self._answers.readline())

    def close(self) -> None:
        """Close the reader, without which the socket stays open."""
        self._answers.close()


@contextmanager
def ask(
    address: str, arguments: Sequence[str], cwd: str, env: Mapping[str, str], streams: tuple[int, int, int]
) -> Iterator[Line]:
    """Ask for a process that runs ``arguments``, a module first."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        message = json.dumps([list(arguments), cwd, dict(env)]).encode()
        socket.send_fds(connection, [b"%010d" % len(message)], list(streams))
        connection.sendall(message)
        with closing(Line(connection)) as line:
            yield line


def receive(connection: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]] | None:
    """Return what was asked for: arguments, folder, environment and streams; None if the client went away."""
    head, streams, _, _ = socket.recv_fds(connection, 10, 3)
    if not head:
        return None
    wanted, parts = int(head), bytearray()
    while len(parts) < wanted:
        part = connection.recv(min(_LARGEST, wanted - len(parts)))
        if not part:
            return None
        parts += part
    arguments, cwd, env = json.loads(parts)
    return arguments, cwd, env, streams
