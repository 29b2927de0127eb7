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
from importlib import import_module
from typing import NoReturn

import omnigraph
from tests.warm.protocol import receive

# What a warm process is not for, and the module that is the command itself.
UNUSED = ("omnigraph.spark", "omnigraph.testing", "omnigraph.__main__")


def main() -> None:
    """Serve until standard input, which nobody writes to, comes to its end."""
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if not module.name.startswith(UNUSED):
            import_module(module.name)
    # The libraries that a command loads when it first needs them.
    for name in (
        "duckdb",
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
    # Lance warns of every fork; this process forks before Lance has run anything.
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    listener = socket.socket(fileno=int(sys.argv[1]))
    # What is there already is shared by all forks as long as no collection touches it.
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            # Taking down what is frozen, DuckDB reports as leaks, into the output of whoever started the tests.
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            wanted = receive(connection)
            pid = os.fork()
            if pid == 0:
                connection.close()
                become(*wanted)
            watch(connection, pid)
        connection.close()


def watch(connection: socket.socket, pid: int) -> None:
    """Tell the client about its process, and end."""
    try:
        connection.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    finally:
        os._exit(0)


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
