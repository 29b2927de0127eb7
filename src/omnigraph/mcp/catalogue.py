"""Which tools a caller is offered: the built-in ones and stored queries, without those that write where nothing may."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mcp_types import Tool as ToolDocument
from mcp_types import ToolAnnotations

from omnigraph.ir.stored_queries import QueryEntry
from omnigraph.mcp.tool import Tool, schema_of
from omnigraph.mcp.tools import branches, history, reads, schema, stored, writes

_GROUPS = (schema, reads, writes, branches, history, stored)
_ALL: tuple[Tool, ...] = tuple(tool for group in _GROUPS for tool in group.TOOLS)
BUILT_IN: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in _ALL})
"""The tools that every graph has, by name."""
GRAPH = "graph"
"""The argument that names the graph where there are several."""


def offered(*, is_read_only: bool, queries: Collection[QueryEntry] = (), most: int = 0) -> Mapping[str, Tool]:
    """Return the tools that a caller is offered.

    Args:
        is_read_only: whether those that write are left out.
        queries: the stored queries of the graph.
        most: how many of them are tools of their own.
    """
    found = {**BUILT_IN, **stored.query_tools(queries, BUILT_IN, most)}
    return {name: tool for name, tool in found.items() if not (tool.writes and is_read_only)}


def tool_document(tool: Tool, graphs: Sequence[str] | None) -> ToolDocument:
    """Return a tool as clients list it.

    Args:
        tool: the tool.
        graphs: the graphs that it may be asked for; None where the address names the graph.
    """
    return ToolDocument(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=_with_graph(tool.input_schema, graphs),
        output_schema=schema_of(tool.answer),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.writes,
            destructive_hint=tool.is_destructive,
            idempotent_hint=not tool.writes,
            # Everything happens in the graph.
            open_world_hint=False,
        ),
    )


def _with_graph(schema: dict[str, Any], graphs: Sequence[str] | None) -> dict[str, Any]:
    if graphs is None:
        return schema
    known = {"enum": list(graphs)} if graphs else {}
    argument = {"type": "string", "description": "The graph, by its id.", **known}
    required = [*schema.get("required", ()), *([] if len(graphs) == 1 else [GRAPH])]
    return {**schema, "properties": {GRAPH: argument, **schema["properties"]}, "required": required}
