"""``omnigraph tag``: commands about tags."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import AsJson, CommitOptions, GraphOptions, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.operations.history import CreateTagRequest, DeleteTagRequest, ListTagsRequest
from omnigraph.values.damage import DamagedRecord, damaged_json

app = new_group(
    "Name states of a graph; a tagged state is never cleaned up.",
    {
        "create": Entry(app=f"{__name__}:create_app", summary="Name a state and keep it."),
        "list": Entry(app=f"{__name__}:list_app", summary="List the tags."),
        "delete": Entry(app=f"{__name__}:delete_app", summary="Delete a tag."),
    },
)


create_app = new_app()


@create_app.command()
@expand_options
def create(
    *,
    graph: GraphOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag to create.")],
    at: Annotated[
        str, typer.Option("--at", metavar="REF", help="The state: a branch, a commit, tag:NAME, BRANCH~N or @TIME.")
    ] = "main",
    commit: CommitOptions,
    as_json: AsJson = False,
) -> int:
    """Name a state of the graph. It stays readable until the tag is deleted."""
    with open_graph(graph_address(graph)) as backend:
        made = backend.execute(CreateTagRequest(name=name, at=at, **commit.to_fields()))
    report = PlainReport(document=made.to_json(), lines=[f"created tag {made.name} at {made.commit_id}"])
    choose_output(as_json=as_json).show(report)
    return 0


delete_app = new_app()


@delete_app.command()
@expand_options
def delete(
    *,
    graph: GraphOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag to delete.")],
    as_json: AsJson = False,
) -> int:
    """Delete a tag. The state it named may then be cleaned up."""
    with open_graph(graph_address(graph)) as backend:
        gone = backend.execute(DeleteTagRequest(name=name))
    report = PlainReport(document=gone.to_json(), lines=[f"deleted tag {gone.name}"])
    choose_output(as_json=as_json).show(report)
    return 0


list_app = new_app()


@list_app.command("list")
@expand_options
def list_tags(*, graph: GraphOptions, as_json: AsJson = False) -> int:
    """List the tags by name, with their commits."""
    with open_graph(graph_address(graph), mode="read_only") as backend:
        found = backend.execute(ListTagsRequest())
    sound = [tag.to_json() for tag in found if not isinstance(tag, DamagedRecord)]
    report = PlainReport(document={"tags": sound, **damaged_json(found)}, lines=list(map(str, found)))
    choose_output(as_json=as_json).show(report)
    return 0
