"""Graphs read from the lines that a load takes, without an engine: nodes with one String key, edges with an id."""

from __future__ import annotations

import json
from typing import Any

from omnigraph.lang.pg import parse_schema
from omnigraph.lang.pg.ast import NodeDecl, Property
from tests.query_oracle.schema import Kind, read_schema
from tests.query_oracle.values import Graph, from_text, round_to_f32


def read_seed(schema_text: str, lines: str) -> Graph:
    """Return the graph that a load of the lines into an empty graph gives."""
    schema, keys = read_schema(schema_text), _keys(schema_text)
    nodes: dict[str, dict[str, Any]] = {name: {} for name in schema.nodes}
    edges: dict[str, dict[str, Any]] = {name: {} for name in schema.edges}
    for line in map(json.loads, lines.splitlines()):
        data = line["data"]
        if "type" in line:
            nodes[line["type"]][data[keys[line["type"]]]] = _values(data, schema.nodes[line["type"]])
        else:
            values = _values(data, schema.edges[line["edge"]].properties)
            edges[line["edge"]][data["id"]] = (line["from"], line["to"], values)
    return Graph(nodes=nodes, edges=edges)


def _keys(schema_text: str) -> dict[str, str]:
    return {
        item.name.text: part.name.text
        for item in parse_schema(schema_text.encode(), "schema.pg").declarations
        if isinstance(item, NodeDecl)
        for part in item.items
        if isinstance(part, Property) and any(one.name.text == "key" for one in part.annotations)
    }


def _values(data: dict[str, Any], kinds: dict[str, Kind]) -> dict[str, Any]:
    found = {name: from_text(data.get(name), kind) for name, kind in kinds.items()}
    return {
        name: round_to_f32(value) if kinds[name].scalar == "F32" and value is not None else value
        for name, value in found.items()
    }
