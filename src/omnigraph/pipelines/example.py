"""A first declaration for people to change: with the types of a schema, or with some that most graphs could have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.errors import BadValue, UsageError
from omnigraph.lang.pg import parse_schema
from omnigraph.pipelines.files import SUFFIXES

# Enough to see how it is done.
_MOST_NODES = 3
_MOST_EDGES = 2
_USUAL = """
node Person { slug: String @key
  name: String
  age: I32? }
node Team { code: String @key
  title: String? }
edge WorksIn: Person -> Team { since: Date? }
"""


def example_text(path: str, catalog: Catalog | None = None, graph: str | None = None) -> str:
    """Return a declaration that validates; by the end of the file's name in Python or in YAML.

    Raises:
        UsageError: the file would be neither.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        details = BadValue(what="file", value=path, expected=" or ".join(SUFFIXES))
        raise UsageError(f"'{path}' is neither Python nor YAML", details=details, hint="name it .py or .yaml")
    used = catalog if catalog is not None and catalog.nodes else compile_schema(parse_schema(_USUAL))
    nodes = list(used.nodes.values())[:_MOST_NODES]
    names = {node.name for node in nodes}
    edges = [edge for edge in used.edges.values() if {edge.from_type, edge.to_type} <= names][:_MOST_EDGES]
    name = re.sub(r"[^\w.-]+", "-", Path(path).stem).strip("-.") or "example"
    lines = _python(name, graph, nodes, edges) if suffix == ".py" else _yaml(name, graph, nodes, edges)
    return "\n".join(lines) + "\n"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _columns(owner: NodeType | EdgeType) -> str:
    return ", ".join(prop.name for prop in owner.properties) or "none"


def _rule(owner: NodeType) -> tuple[str, str] | None:
    """Return the name and the condition of an expectation that suits a type."""
    names = owner.key or tuple(prop.name for prop in owner.properties if not prop.type.nullable)
    return (f"has_{names[0]}", f"`{names[0]}` IS NOT NULL") if names else None


def _ends(edge: EdgeType, nodes: list[NodeType]) -> Iterator[tuple[str, str]]:
    by_name = {node.name: node for node in nodes}
    for side, prefix, name in (("src", "from", edge.from_type), ("dst", "to", edge.to_type)):
        columns = (f"{prefix}_{column}" for column in by_name[name].key or ("id",))
        yield side, f"{name}({', '.join(columns)})"


def _yaml(name: str, graph: str | None, nodes: list[NodeType], edges: list[EdgeType]) -> Iterator[str]:
    yield "# Loads tables of other systems into a graph. `omnigraph pipeline validate` checks this file."
    yield f"pipeline: {name}"
    yield "# graph: s3://bucket/prefix" if graph is None else f'graph: "{graph}"'
    yield "# direct commits to the branch; audit merges if all checks pass; propose opens a proposal."
    yield "publish: direct"
    yield from ("", "sources:")
    owners: list[NodeType | EdgeType] = [*nodes, *edges]
    for owner in owners:
        yield f"  {_snake(owner.name)}_rows:"
        yield "    format: csv"
        yield f"    path: data/{owner.name}.csv"
        yield "    options: {header: true}"
        yield "    # incremental: updated_at   # read only rows with a greater value than before; or: files"
    yield from ("", "nodes:")
    for node in nodes:
        yield f"  {_snake(node.name)}:"
        yield f"    type: {node.name}"
        yield f"    # Columns become properties by name: {_columns(node)}"
        yield f"    input: {_snake(node.name)}_rows"
        yield "    # set: {name: trim(full_name)}   # an expression for a property"
        if node.key is None:
            yield "    key: id"
        rule = _rule(node)
        if rule is not None:
            yield from ("    expect:", f'      {rule[0]}: {{quarantine: "{rule[1]}"}}')
    if edges:
        yield from ("", "edges:")
    for edge in edges:
        yield f"  {_snake(edge.name)}:"
        yield f"    type: {edge.name}"
        yield f"    # Columns become properties by name: {_columns(edge)}"
        yield f"    input: {_snake(edge.name)}_rows"
        for side, text in _ends(edge, nodes):
            yield f"    {side}: {text}"
        yield "    missing_end: quarantine"
    yield ""
    yield "# A query that must return no row on the new state."
    yield "# checks:"
    yield f"#   no strangers: 'query q() {{ match {{ $x: {nodes[0].name} }} return {{ $x }} }}'"


def _python(name: str, graph: str | None, nodes: list[NodeType], edges: list[EdgeType]) -> Iterator[str]:
    yield '"""Loads tables of other systems into a graph. `omnigraph pipeline validate` checks this file."""'
    yield ""
    yield "from omnigraph.pipelines import Pipeline, quarantine"
    yield ""
    address = "" if graph is None else f", graph={graph!r}"
    yield "# direct commits to the branch; audit merges if all checks pass; propose opens a proposal."
    yield f'pipeline = Pipeline({name!r}{address}, publish="direct")'
    owners: list[NodeType | EdgeType] = [*nodes, *edges]
    yield '# With incremental="updated_at" only rows with a greater value are read; or: incremental="files".'
    for owner in owners:
        yield f'pipeline.source("{_snake(owner.name)}_rows", format="csv", path="data/{owner.name}.csv")'
    for node in nodes:
        rule = _rule(node)
        told = "" if node.key is not None else ', key="id"'
        told += "" if rule is None else f', expect=[quarantine("{rule[0]}", "{rule[1]}")]'
        yield from ("", "")
        yield f'@pipeline.node("{node.name}"{told})'
        yield f"def {_snake(node.name)}({_snake(node.name)}_rows):   # parameters name sources or other steps"
        yield f"    # Columns become properties by name: {_columns(node)}"
        yield f"    return {_snake(node.name)}_rows"
    for edge in edges:
        told = "".join(f', {side}="{text}"' for side, text in _ends(edge, nodes))
        yield from ("", "")
        yield f'@pipeline.edge("{edge.name}"{told}, missing_end="quarantine")'
        yield f"def {_snake(edge.name)}({_snake(edge.name)}_rows):"
        yield f"    # Columns become properties by name: {_columns(edge)}"
        yield f"    return {_snake(edge.name)}_rows"
    yield from ("", "", "# A query that must return no row on the new state.")
    yield '# @pipeline.check("no strangers")'
    yield "# def no_strangers():"
    yield f'#     return "query q() {{ match {{ $x: {nodes[0].name} }} return {{ $x }} }}"'
