"""What agents read without a call: the guide to the language, the schema, its types, the branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from mcp_types import Resource, ResourceTemplate

from omnigraph.errors import MissingThing, ToolMissingError
from omnigraph.mcp.guide import GUIDE_TEXT
from omnigraph.mcp.problems import GUIDE
from omnigraph.mcp.tool import ToolCall
from omnigraph.mcp.tools.branches import BranchList, list_branches
from omnigraph.mcp.tools.schema import described_type, read_catalog, types_document
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.records import record

SCHEME = "omnigraph://"
_GRAPHS = f"{SCHEME}graphs/"
_JSON = "application/json"
# The source of a larger schema is not shown: it would fill a context before the first question.
MOST_SCHEMA_BYTES = 64 << 10
_TYPES = "types/"
_OF_GRAPH = (
    ("schema", "schema", "The schema of the graph as it was written.", "text/plain"),
    ("types", "types", "The names of all types, with the number of entities of each.", _JSON),
    ("branches", "branches", "The branches, and how far each is ahead of and behind its parent.", _JSON),
)


@record
class Wanted:
    """What an address names: a part of a graph, or of none."""

    graph_id: str | None
    path: str


@record
class Content:
    """What is read."""

    text: str
    mime_type: str


def list_resources(graphs: Sequence[str] | None) -> list[Resource]:
    """Return what there is to read; ``graphs`` as a host gives them."""
    guide = Resource(
        uri=GUIDE,
        name="guide",
        title="Guide to the query language",
        description="Reads and mutations explained on one page.",
        mime_type="text/markdown",
        size=len(GUIDE_TEXT.encode()),
    )
    listed = [guide]
    for prefix in _prefixes(graphs):
        for path, title, description, mime_type in _OF_GRAPH:
            uri = f"{prefix}{path}"
            name = uri.removeprefix(SCHEME)
            listed.append(Resource(uri=uri, name=name, title=title, description=description, mime_type=mime_type))
    return listed


def list_templates(graphs: Sequence[str] | None) -> list[ResourceTemplate]:
    """Return the addresses with a name to be filled in."""
    prefix = SCHEME if graphs is None else f"{_GRAPHS}{{graph}}/"
    return [
        ResourceTemplate(
            uri_template=f"{prefix}{_TYPES}{{name}}",
            name="type",
            title="A type",
            description="The declaration of one type.",
            mime_type=_JSON,
        )
    ]


def _prefixes(graphs: Sequence[str] | None) -> Iterator[str]:
    if graphs is None:
        yield SCHEME
    else:
        yield from (f"{_GRAPHS}{graph_id}/" for graph_id in graphs)


def parse_address(uri: str, graphs: Sequence[str] | None) -> Wanted:
    """Return what an address names.

    Raises:
        ToolMissingError: it names nothing.
    """
    if uri == GUIDE:
        return Wanted(graph_id=None, path="guide")
    if graphs is not None and uri.startswith(_GRAPHS):
        graph_id, slash, path = uri.removeprefix(_GRAPHS).partition("/")
        if slash:
            return Wanted(graph_id=graph_id, path=path)
    if graphs is None and uri.startswith(SCHEME):
        return Wanted(graph_id=None, path=uri.removeprefix(SCHEME))
    raise missing_resource(uri)


def read_guide() -> Content:
    """Return the guide to the language."""
    return Content(text=GUIDE_TEXT, mime_type="text/markdown")


def read_part(call: ToolCall, uri: str, path: str) -> Content:
    """Return a part of a graph.

    Raises:
        ToolMissingError: there is no such part.
        OmnigraphError: it cannot be read.
    """
    match path:
        case "schema":
            return _schema(call)
        case "types":
            return _json(types_document(*read_catalog(call, None, None)))
        case "branches":
            return _json(list_branches(call, BranchList()))
    if path.startswith(_TYPES) and path != _TYPES:
        catalog, state = read_catalog(call, None, None)
        return _json(described_type(catalog, state, path.removeprefix(_TYPES)))
    raise missing_resource(uri)


def _schema(call: ToolCall) -> Content:
    accepted = call.execute(ReadStateRequest(branch=call.graph.branch)).state.schema
    size = len(accepted.source.encode())
    if size <= MOST_SCHEMA_BYTES:
        return Content(text=accepted.source, mime_type="text/plain")
    text = f"The schema has {size} bytes. Look for types with schema_search, and describe one with describe_type.\n"
    return Content(text=text, mime_type="text/plain")


def _json(document: Any) -> Content:
    return Content(text=msgspec.json.encode(document, enc_hook=str).decode(), mime_type=_JSON)


def missing_resource(uri: str) -> ToolMissingError:
    """Return the error for an address that names nothing."""
    shown = uri[:200]
    return ToolMissingError(f"resource '{shown}' was not found", details=MissingThing(what="resource", name=shown))
