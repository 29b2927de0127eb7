"""A process that changes rows of its own: ``python -m tests.multiprocess.updating <root> <name> <count> <gate>``.

It begins when the gate opens, and prints one JSON object: what each of its writes counted, or the code that refused it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.runtime.failpoints import pause_until
from tests.session_graph import open_session

_UPDATE = "query u($name: String, $n: I64) { update Counter set { n: $n } where name = $name }"
_DELETE = "query d($name: String) { delete Counter where name = $name }"


def act(root: str, name: str, count: str, gate: str) -> list[Any]:
    """Count a row up and delete one spare row each time; return how each write ended."""
    outcomes: list[Any] = []
    with open_session(root) as session:
        pause_until(Path(gate))()
        for number in range(1, int(count) + 1):
            for text, params in (
                (_UPDATE, {"name": name, "n": number}),
                (_DELETE, {"name": f"{name}-spare{number}"}),
            ):
                try:
                    outcomes.append(session.mutate(text, params, actor=name).affected_nodes)
                except OmnigraphError as error:
                    outcomes.append(error.code)
    return outcomes


if __name__ == "__main__":
    sys.stdout.write(json.dumps(act(*sys.argv[1:])))
