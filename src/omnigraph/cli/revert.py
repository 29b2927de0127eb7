"""``omnigraph revert``: undoes one commit by another."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.guards import echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson, Branch, IfCommit, Message, Quiet, Resolve, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.history.merge import revert_commit

app = new_app()


@app.command()
def revert(
    *,
    commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit to undo.")],
    branch: Branch = "main",
    resolve: Resolve = None,
    message: Message = None,
    expected_head: IfCommit = None,
    uri: UriOption = None,
    store: Store = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Undo what one commit changed, as a commit of its own; what came after it stays.

    Rows that later commits changed too are conflicts unless --resolve decides them: ours keeps the rows as they are,
    theirs takes them back.
    """
    address = graph_address(uri, store)
    echo_target("revert", address, is_quiet=quiet)
    with open_graph(address) as session:
        done = revert_commit(
            session,
            commit_id,
            branch=branch,
            resolve=resolve,  # type: ignore[arg-type]  # checked inside
            actor=actor,
            message=message,
            expected_head=expected_head,
        )
    outcome = "nothing was left to undo" if done.commit is None else f"commit {done.commit.id}"
    report = PlainReport(document=done.to_json(), lines=[f"reverted {done.reverted} on {done.branch}: {outcome}"])
    choose_output(as_json=as_json).show(report)
    return 0
