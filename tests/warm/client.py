"""Asks the server for a process from a shell: ``client.py MODULE [ARGUMENTS]``. Imports next to nothing."""

import os
import signal
import sys

if __name__ == "__main__":
    # Started without the packages of the environment, which would take longer than the answer.
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes longer to import than all the rest
    import protocol

    environment = {name: value for name, value in os.environ.items() if name != protocol.SOCKET_VARIABLE}
    passed_on = {signal.SIGTERM, signal.SIGHUP}
    # The process may run, and somebody may know it, before this client knows its number: a signal waits until then.
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    folder = os.getcwd()  # noqa: PTH109 - for the same reason
    with protocol.ask(os.environ[protocol.SOCKET_VARIABLE], sys.argv[1:], folder, environment, (0, 1, 2)) as line:
        pid = line.pid()
        # Whoever ends the client, or tells it to reload, means its process.
        for one in passed_on:
            signal.signal(one, lambda number, _: os.kill(pid, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
        code = line.exit_code(None)
    sys.exit(code if code >= 0 else 128 - code)
