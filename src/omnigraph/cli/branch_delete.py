"""``omnigraph branch delete``: ends a branch."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.guards import ask_consent, echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson, Consent, Quiet, Store, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport

app = new_app()


@app.command()
def delete(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The branch to delete.")],
    uri: UriOption = None,
    store: Store = None,
    actor: Actor = None,
    yes: Consent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Delete a branch and the commits that are its own, for good.

    A branch that another branch or a tag depends on is refused.
    """
    address = graph_address(uri, store)
    ask_consent(f"deleting branch '{name}'", address, is_given=yes, as_json=as_json)
    echo_target("branch delete", address, is_quiet=quiet)
    with open_graph(address) as session:
        session.delete_branch(name, actor=actor)
    report = PlainReport(document={"uri": address, "name": name, "actor_id": actor}, lines=[f"deleted branch {name}"])
    choose_output(as_json=as_json).show(report)
    return 0
