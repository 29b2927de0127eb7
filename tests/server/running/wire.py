"""Requests by hand, byte by byte over a socket, and what a server's process has open."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.server.process import WAIT_S, RunningServer


def dial(server: RunningServer, *, receive_bytes: int | None = None) -> socket.socket:
    """Return a connection; close it. ``receive_bytes`` is how much the system keeps for a reader that does not read."""
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(WAIT_S)
    connection.connect((host, int(port)))
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    found = b""
    with suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            found += piece
    return found


def exchange(server: RunningServer, data: bytes) -> bytes:
    """Send bytes and return what comes until the server closes the connection."""
    with dial(server) as connection:
        with suppress(ConnectionError):
            connection.sendall(data)
        return read_all(connection)


def drip(server: RunningServer, head: bytes, pieces: Iterable[bytes]) -> bytes:
    """Send ``pieces`` slowly, one after the other, until the server has closed the connection; return what it sent."""
    with dial(server) as connection:
        connection.sendall(head)
        connection.settimeout(0.1)
        found = b""
        for piece in pieces:
            try:
                got = connection.recv(1 << 16)
                if not got:
                    return found
                found += got
            except TimeoutError:
                with suppress(ConnectionError):
                    connection.sendall(piece)
            except ConnectionError:
                return found
        raise AssertionError("the server still listens to a sender that drips")


def head(method: str, path: str, *lines: str, body: bytes | None = None) -> bytes:
    """Return a request; the last one of its connection unless ``lines`` say so."""
    told = [f"{method} {path} HTTP/1.1", "Host: localhost", *lines]
    if not any(line.lower().startswith("connection:") for line in lines):
        told.append("Connection: close")
    if body is not None:
        told.append(f"Content-Length: {len(body)}")
    return "\r\n".join(told).encode() + b"\r\n\r\n" + (body or b"")


def status(answer: bytes) -> int:
    """Return the status of the first answer; 0 if the connection was closed without one."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


def usage(server: RunningServer) -> tuple[int, int]:
    """How many threads and open descriptors the process has."""
    process = f"/proc/{server.process.pid}"
    return len(os.listdir(f"{process}/task")), len(os.listdir(f"{process}/fd"))  # noqa: PTH208 - entries vanish meanwhile


def sockets(server: RunningServer) -> int:
    """How many sockets the process has."""
    found = 0
    for one in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(one.readlink()).startswith("socket:")
    return found


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; the limit bounds a hanging test only."""
    end = time.monotonic() + 2 * WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)
