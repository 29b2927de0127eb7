"""One of two writers that must not both succeed: ``python -m tests.multiprocess.skew <ground> <role> <outcome file>``.

``overwrite`` replaces the persons and leaves ``dropped`` out; ``edge`` adds an edge to ``dropped``. Each looks at what
the other writes, so the two together would leave an edge without an end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from omnigraph.errors import BadValue, ExpectedVersionMismatchError, UsageError
from omnigraph.runtime import Runtime
from omnigraph.txn.changes import TableReplace
from omnigraph.txn.publish.kinds import WriteKind
from tests.multiprocess.ground import Ground
from tests.multiprocess.worker import ends_exist
from tests.txn_graph import KNOWS, PERSON, authority_of, edge_rows, node_rows, open_graph

KEPT, DROPPED, EDGE = "kept", "dropped", "hanging"
DONE, REFUSED = "done", "refused"


def begin(graph: Any, role: str) -> Any:
    """Return the transaction of a role, upon the newest state."""
    branch_writer = authority_of(graph)
    if role == "edge":
        txn = branch_writer.begin(WriteKind.INSERT, actor=role)
        txn.insert(KNOWS, edge_rows([(EDGE, KEPT, DROPPED)]))
        txn.read_table(PERSON)
        txn.add_check(ends_exist([{"src": KEPT, "dst": DROPPED}]))
        return txn
    txn = branch_writer.begin(WriteKind.LOAD_OVERWRITE, actor=role)
    txn.change(TableReplace(table_key=PERSON, rows=node_rows([KEPT], 1)))
    txn.read_table(KNOWS)
    txn.add_check(_no_edge_hangs)
    return txn


def commit(graph: Any, txn: Any) -> str:
    """Commit and say how it ended; only the two refusals that the race may end in are outcomes."""
    try:
        authority_of(graph).commit(txn)
    except (ExpectedVersionMismatchError, UsageError):
        return REFUSED
    return DONE


def act(ground: Ground, role: str, runtime: Runtime) -> str:
    """Play a role on a graph of its own and return how it ended."""
    with open_graph(ground.storage, settings=ground.txn_settings, runtime=runtime) as graph:
        return commit(graph, begin(graph, role))


def _no_edge_hangs(view: Any) -> None:
    for edge in view.snapshot.table(KNOWS).read().to_pylist():
        if DROPPED in {edge["src"], edge["dst"]}:
            details = BadValue(what="node", value=DROPPED, expected="a node without edges")
            raise UsageError(f"an edge needs the node edge={edge['id']}", details=details)


def main() -> None:
    """Play the role; the outcome goes to a file that appears whole."""
    ground, role, target = Ground.load(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    draft = target.with_suffix(".draft")
    draft.write_text(act(ground, role, Runtime.system()), encoding="utf-8")
    draft.rename(target)


if __name__ == "__main__":
    main()
