"""A process that merges or reverts: ``python -m tests.multiprocess.merging <root> <what> <commit or branch>``."""

from __future__ import annotations

import sys

from omnigraph.errors import OmnigraphError
from omnigraph.history.merge import merge_branch, revert_commit
from tests.session_graph import open_session


def act(root: str, what: str, subject: str) -> str:
    """Do it on main; return ``done`` or the code of what refused it."""
    with open_session(root) as session:
        try:
            if what == "merge":
                merge_branch(session, subject)
            else:
                revert_commit(session, subject)
        except OmnigraphError as error:
            return error.code
    return "done"


if __name__ == "__main__":
    sys.stdout.write(act(*sys.argv[1:]))
