"""Which tools a caller is offered: the built-in ones, without those that write where the server is read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mcp_types import Tool as ToolDocument
from mcp_types import ToolAnnotations

from omnigraph.mcp.tool import Tool, schema_of
from omnigraph.mcp.tools import branches, history, reads, schema, writes

_ALL: tuple[Tool, ...] = (*schema.TOOLS, *reads.TOOLS, *writes.TOOLS, *branches.TOOLS, *history.TOOLS)
BUILT_IN: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in _ALL})
"""The tools that every graph has, by name."""
GRAPH = "graph"
"""The argument that names the graph where there are several."""


def offered(*, is_read_only: bool) -> Mapping[str, Tool]:
    """Return the built-in tools that a caller is offered."""
    return {name: tool for name, tool in BUILT_IN.items() if not (tool.writes and is_read_only)}


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
