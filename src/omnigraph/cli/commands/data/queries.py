"""``omnigraph queries``: which stored queries there are, and whether they fit the schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import AsJson, Branch, GraphOptions, StoredFiles, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.stored import find_queries, list_entries
from omnigraph.operations.stored import ValidateQueriesRequest

if TYPE_CHECKING:
    from omnigraph.ir.stored_queries import QueryEntry

_BROKEN = 1

app = new_group(
    "List and check stored queries: those of a server, or those of files.",
    {
        "list": Entry(app=f"{__name__}:list_app", summary="List the stored queries."),
        "validate": Entry(app=f"{__name__}:validate_app", summary="Check the stored queries against the schema."),
    },
)

list_app = new_app()


@list_app.command("list")
@expand_options
def list_stored(*, graph: GraphOptions, queries: StoredFiles = None, as_json: AsJson = False) -> int:
    """List the stored queries by name, with their parameters and descriptions.

    With a server, its stored queries are listed; otherwise those of the files that --queries names, without opening a
    graph.
    """
    place, found = list_entries(graph, queries)
    has_tools = place is None or place.has_tools
    report = PlainReport(
        document={"queries": [_document(one, has_tools=has_tools) for one in found]},
        lines=[line for one in found for line in _lines(one)],
    )
    choose_output(as_json=as_json).show(report)
    return 0


validate_app = new_app()


@validate_app.command()
@expand_options
def validate(
    *, graph: GraphOptions, queries: StoredFiles = None, branch: Branch = "main", as_json: AsJson = False
) -> int:
    """Check every stored query against the current schema of a branch. Exits with code 1 if one is broken.

    A server checks its own; --queries names files to check against the schema of a graph's storage.
    """
    with find_queries(graph, queries, keeps_broken=True) as place:
        found = place.backend.execute(ValidateQueriesRequest(branch=branch))
    remarks = [] if as_json else [f"warning: {warning}" for warning in found.warnings]
    report = PlainReport(document=found.to_json(), lines=list(found.lines()), remarks=remarks)
    choose_output(as_json=as_json).show(report)
    return 0 if found.is_ok else _BROKEN


def _document(entry: QueryEntry, *, has_tools: bool) -> dict[str, Any]:
    told = {"description": entry.description, "instruction": entry.instruction}
    is_tool = has_tools and entry.mcp_expose
    return {
        "name": entry.name,
        "mcp_expose": is_tool,
        "tool_name": entry.name if is_tool else None,
        "mutation": entry.is_mutation,
        **{name: text for name, text in told.items() if text is not None},
        "params": [
            {"name": one.name, "type": str(replace(one.type, nullable=False)), "nullable": one.type.nullable}
            for one in entry.parameters
        ],
    }


def _lines(entry: QueryEntry) -> Iterable[str]:
    yield f"{'mutation' if entry.is_mutation else 'read':<8}  {entry.signature()}"
    for name, text in (("description", entry.description), ("instruction", entry.instruction)):
        if text is not None:
            yield f"    {name}: {text}"
