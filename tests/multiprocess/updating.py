"""A process that changes rows of its own, then one of all: ``python -m tests.multiprocess.updating`` and its arguments.

They are the graph, a name, a count and a gate. It begins when the gate opens, and prints one JSON object: what each of
its writes counted, or the code that refused it, and how often writes of its own rows were run again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.runtime.failpoints import pause_until
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import WriteTxn
from tests.session_graph import open_session

_UPDATE = "query u($name: String, $n: I64) { update Counter set { n: $n } where name = $name }"
_SHARED = 'query s() { update Counter set { n: n + 1 } where name = "shared" }'
_DELETE = "query d($name: String) { delete Counter where name = $name }"


def act(root: str, name: str, count: str, gate: str) -> dict[str, Any]:
    """Count a row up and delete one spare row each time, then the same for the row of all; return how writes ended."""
    reruns: list[str] = []
    run_again = WriteTxn.run_again

    def counted(txn: WriteTxn, snapshot: GraphSnapshot) -> bool:
        reruns.append(str(txn.commit_id))
        return run_again(txn, snapshot)

    WriteTxn.run_again = counted  # type: ignore[method-assign]  # counted, and otherwise what it is
    with open_session(root) as session:
        pause_until(Path(gate))()

        def write(text: str, **params: Any) -> Any:
            try:
                return session.mutate(text, params, actor=name).affected_nodes
            except OmnigraphError as error:
                return error.code

        own = [
            write(text, **params)
            for number in range(1, int(count) + 1)
            for text, params in (
                (_UPDATE, {"name": name, "n": number}),
                (_DELETE, {"name": f"{name}-spare{number}"}),
            )
        ]
        own_reruns = len(reruns)
        shared = [write(_SHARED) for _ in range(int(count))]
    return {"own": own, "reruns": own_reruns, "shared": shared}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(act(*sys.argv[1:])))
