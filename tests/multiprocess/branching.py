"""One of two processes that meet on a branch: ``python -m tests.multiprocess.branching <ground> <act> <outcome file>``.

An act is ``create:<name>[:<source>]``, ``delete:<name>``, ``write:<branch>`` or ``tag:<name>:<branch>``. Its outcome is
``done`` or the code of the error that refused it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omnigraph.errors import OmnigraphError
from omnigraph.runtime import Runtime
from omnigraph.values import MAIN, BranchName, TagName
from tests.multiprocess.ground import Ground
from tests.txn_graph import PERSON, insert, node_rows, open_graph

DONE = "done"
WRITTEN = "written"


def act(ground: Ground, what: str, runtime: Runtime) -> str:
    """Do it on a graph of its own and return how it ended."""
    verb, name, *rest = what.split(":")
    with open_graph(ground.storage, settings=ground.txn_settings, runtime=runtime) as graph:
        try:
            match verb:
                case "create":
                    graph.create_branch(BranchName(name), source=BranchName(rest[0] if rest else MAIN))
                case "delete":
                    graph.delete_branch(BranchName(name))
                case "write":
                    insert(graph, PERSON, node_rows([WRITTEN]), branch=name)
                case "tag":
                    graph.create_tag(TagName(name), rest[0])
                case _:
                    raise ValueError(what)
        except OmnigraphError as error:
            return error.code
    return DONE


def main() -> None:
    """Play the role; the outcome goes to a file that appears whole."""
    ground, what, target = Ground.load(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    draft = target.with_suffix(".draft")
    draft.write_text(act(ground, what, Runtime.system()), encoding="utf-8")
    draft.rename(target)


if __name__ == "__main__":
    main()
