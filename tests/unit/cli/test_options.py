"""Records of options: what a command that takes one looks like to the argument parser, and what it is given."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.main import get_command

from omnigraph.cli.graphs import GraphOptions
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, ChangeFilter, expand_options

app = new_app()
SEEN: list[object] = []


@app.command()
@expand_options
def show(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    only: ChangeFilter,
    graph: GraphOptions,
    as_json: AsJson = False,
) -> int:
    """Show something."""
    SEEN[:] = [name, only, graph, as_json]
    return 0


def test_the_fields_of_a_record_are_options_in_its_place():
    command = get_command(app)
    assert [parameter.name for parameter in command.params if parameter.name != "help"] == [
        *("name", "kinds", "types", "ops"),
        *("uri", "store", "uri_option", "as_json"),
    ]
    assert command.help == "Show something."


def test_a_command_is_given_the_record():
    get_command(app)(["x", "--kind", "node", "--store", "g"], standalone_mode=False)
    assert ["x", ChangeFilter(kinds=["node"]), GraphOptions(store="g"), False] == SEEN


def test_what_is_not_given_has_its_default():
    get_command(app)(["x", "--json"], standalone_mode=False)
    assert ["x", ChangeFilter(), GraphOptions(), True] == SEEN
    assert ChangeFilter().to_fields() == {"kinds": (), "types": (), "ops": ()}
