"""The server: ``python -m tests.warm.server LISTENER``; imports everything, then forks for every connection."""

from __future__ import annotations

import atexit
import gc
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NoReturn

import omnigraph
from omnigraph.catalog import compile_schema
from omnigraph.ir import compile_query
from omnigraph.lang.pg import parse_schema
from tests.warm.protocol import receive

# What a warm process is not for, and the module that is the command itself.
UNUSED = ("omnigraph.spark", "omnigraph.testing", "omnigraph.__main__")


def main() -> None:
    """Serve until standard input, which nobody writes to, comes to its end."""
    with registering_nothing():
        import_module("duckdb")
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if not module.name.startswith(UNUSED):
            import_module(module.name)
    # The libraries that a command loads when it first needs them.
    for name in (
        "lance",
        "numpy.ma",
        "pyarrow.csv",
        "pyarrow.json",
        "pyarrow.parquet",
        "rich.progress",
        "tests.session_graph",
        "typer._adapters",
    ):
        import_module(name)
    read_languages()
    # Lance warns of every fork; this process forks before Lance has run anything.
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    # What is there already is shared by all forks as long as no collection touches it.
    gc.freeze()
    Server(socket.socket(fileno=int(sys.argv[1]))).serve()


def read_languages() -> None:
    """Read the tables of both languages, and make the records that every text becomes."""
    catalog = compile_schema(parse_schema("node Person { name: String @key }\nedge Knows: Person -> Person\n"))
    for text in (
        "query q($n: String) { match { $p: Person { name: $n }  $p knows $f } return { $f.name } order { $f.name } }",
        "query q($n: String) { insert Person { name: $n } }",
    ):
        compile_query(text, None, catalog)


@contextmanager
def registering_nothing() -> Iterator[None]:
    """Let a library register nothing for the end of a process; what DuckDB does there takes ten milliseconds."""
    register = atexit.register
    atexit.register = lambda function, *_, **__: function
    try:
        yield
    finally:
        atexit.register = register


class Server:
    """Forks for every connection, and tells each client how its process ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients: dict[int, socket.socket] = {}
        # A signal writes a byte there, which wakes the loop.
        self._ended, self._wakes = socket.socketpair()

    def serve(self) -> NoReturn:
        for end_of_pair in (self._ended, self._wakes):
            end_of_pair.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._listener, self._ended, 0], [], [])
            if 0 in ready:
                # Taking down what is frozen, DuckDB reports as leaks, into the output of whoever started the tests.
                os._exit(0)
            if self._ended in ready:
                self._ended.recv(4096)
                self._tell_ends()
            if self._listener in ready:
                self._start(self._listener.accept()[0])

    def _start(self, connection: socket.socket) -> None:
        wanted = receive(connection)
        if wanted is None:
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (connection, self._listener, self._ended, self._wakes, *self._clients.values()):
                one.close()
            become(*wanted)
        for stream in wanted[-1]:
            os.close(stream)
        self._clients[pid] = connection
        _tell(connection, pid)

    def _tell_ends(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._clients.pop(pid) as connection:
                _tell(connection, os.waitstatus_to_exitcode(status))


def _tell(connection: socket.socket, number: int) -> None:
    # The client may be gone.
    with suppress(OSError):
        connection.sendall(b"%d\n" % number)


def become(arguments: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> NoReturn:
    """Be the process that was asked for."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Shells start background jobs with interrupts ignored, and all that a job starts inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    sys.argv = arguments
    # Nobody has imported the module that a process runs.
    sys.modules.pop(arguments[0], None)
    code: object = 0
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        code = ending.code
    except BaseException:  # noqa: BLE001 - whatever a process may end with
        traceback.print_exc()
        code = 1
    end(code)


def end(code: object) -> NoReturn:
    """End as the interpreter does, without taking down all the modules that nobody asked for."""
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    main()
