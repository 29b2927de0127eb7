"""A server of the example graph, to try what clients can do with it: ``make serve``, and Ctrl-C to end it.

The graph lives in a temporary folder and goes with the server. Everybody who reaches the address may do everything, so
it listens on this machine only; ``docs/user/server.md`` tells how to serve a graph of your own.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import omnigraph

PEOPLE = Path(__file__).parent / "people"
LISTENING = "OMNIGRAPH_LISTEN_ADDR="
TRY = """\
The example graph is at http://{address}/graphs/people, and its API at http://{address}/openapi.json
Try, in another terminal:

  omnigraph query --server http://{address} --graph people \\
    -e 'query names() {{ match {{ $p: Person }} return {{ $p.name }} }}'

  curl http://{address}/graphs/people/queries/colleagues -d '{{"params": {{"slug": "mira"}}}}'
"""


def main() -> int:
    """Make the graph, serve it, and return the exit code of the server."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--bind", default="127.0.0.1:8080", metavar="HOST:PORT", help="where to listen")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "people.omni"
        with omnigraph.init(place, PEOPLE / "schema.pg") as graph:
            graph.load(PEOPLE / "staff.jsonl", mode="append")
        command = [sys.executable, "-m", "omnigraph", "serve", str(place), "--unauthenticated", "--bind", given.bind]
        code, has_listened = serve([*command, "--queries", str(PEOPLE / "queries.gq")])
    if code and not has_listened:
        print("hint: `make serve BIND=127.0.0.1:0` takes any free port", file=sys.stderr)
    return code


def serve(command: list[str]) -> tuple[int, bool]:
    """Run the server until a signal ends it, and return its exit code and whether it has listened."""
    has_listened = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own command
        # Ctrl-C reaches both processes; this one waits for the other to finish what is under way.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        for line in server.stdout or ():
            if line.startswith(LISTENING):
                has_listened = True
                print(TRY.format(address=line.strip().removeprefix(LISTENING)), flush=True)
        return server.wait(), has_listened


if __name__ == "__main__":
    sys.exit(main())
