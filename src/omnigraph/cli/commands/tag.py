"""``omnigraph tag``: commands about tags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import Entry, LazyGroup, new_app
from omnigraph.cli.options import Actor, AsJson, Message, Store, UriOption
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.operations.history import CreateTagRequest, DeleteTagRequest, ListTagsRequest
from omnigraph.txn.branches.tags import Tag


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "create": Entry(app="omnigraph.cli.commands.tag:create_app", summary="Name a state and keep it."),
        "list": Entry(app="omnigraph.cli.commands.tag:list_app", summary="List the tags."),
        "delete": Entry(app="omnigraph.cli.commands.tag:delete_app", summary="Delete a tag."),
    }


app = new_app(cls=_Commands)


@app.callback()
def tag() -> None:
    """Name states of a graph; a tagged state is never cleaned up."""


create_app = new_app()


@create_app.command()
def create(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag to create.")],
    at: Annotated[
        str, typer.Option("--at", metavar="REF", help="The state: a branch, a commit, tag:NAME, BRANCH~N or @TIME.")
    ] = "main",
    message: Message = None,
    uri: UriOption = None,
    store: Store = None,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """Name a state of the graph. It stays readable until the tag is deleted."""
    with open_graph(graph_address(uri, store)) as backend:
        made = backend.execute(CreateTagRequest(name=name, at=at, actor=actor, message=message))
    report = PlainReport(document=made.to_json(), lines=[f"created tag {made.name} at {made.commit_id}"])
    choose_output(as_json=as_json).show(report)
    return 0


delete_app = new_app()


@delete_app.command()
def delete(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag to delete.")],
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """Delete a tag. The state it named may then be cleaned up."""
    with open_graph(graph_address(uri, store)) as backend:
        gone = backend.execute(DeleteTagRequest(name=name))
    report = PlainReport(document=gone.to_json(), lines=[f"deleted tag {gone.name}"])
    choose_output(as_json=as_json).show(report)
    return 0


list_app = new_app()


@list_app.command("list")
def list_tags(*, uri: UriOption = None, store: Store = None, as_json: AsJson = False) -> int:
    """List the tags by name, with their commits."""
    with open_graph(graph_address(uri, store), mode="read_only") as backend:
        found = backend.execute(ListTagsRequest())
    report = PlainReport(document={"tags": [tag.to_json() for tag in found]}, lines=list(map(_line, found)))
    choose_output(as_json=as_json).show(report)
    return 0


def _line(tag: Tag) -> str:
    message = "" if tag.message is None else f" {json.dumps(tag.message, ensure_ascii=False)}"
    return f"{tag.name} {tag.commit_id}{message}"
