"""Which column of a table file is which property of a type."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.load.sources import Source
from omnigraph.engine.rows import RowProblem
from omnigraph.errors import BadValue, MissingThing, TypeMissingError, UsageError
from omnigraph.records import record

_ENDPOINTS = {"src": ("from", "src"), "dst": ("to", "dst")}
_HEADER_LINE = 1


@record
class Binding:
    """The type of a file's rows, and the file's column for each table column that it gives."""

    owner: NodeType | EdgeType
    columns: Mapping[str, str]


def owner_of(source: Source, catalog: Catalog) -> NodeType | EdgeType:
    """Return the type that all rows of a table file belong to.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type share the name.
    """
    named = source.type_name or source.stem
    kind, colon, name = named.partition(":")
    if not colon:
        kind, name = "", named
    node = catalog.node(name) if kind in {"", "node"} else None
    edge = catalog.edge(name) if kind in {"", "edge"} else None
    if node is not None and edge is not None:
        details = BadValue(what="type", value=name, expected=f"node:{name} or edge:{name}")
        raise UsageError(f"a node type and an edge type have this name name={name}", details=details)
    owner = node if node is not None else edge
    if owner is None:
        near = tuple(difflib.get_close_matches(name, [*catalog.nodes, *catalog.edges], n=3))
        details_missing = MissingThing(what="type", name=name, near=near)
        hint = f"did you mean {near[0]}?" if near else "name the type of the file, as in Person=people.csv"
        raise TypeMissingError(
            f"the schema has no type for this file type={name} path={source.name}", details=details_missing, hint=hint
        )
    return owner


def bind(source: Source, owner: NodeType | EdgeType, header: Sequence[str]) -> Binding | RowProblem:
    """Match the columns of a file with those of the type; every column must be one of them."""
    known = _known_columns(owner, is_exported=source.is_exported)
    wanted: dict[str, str] = {}
    for name, column in source.columns.items():
        if name not in known:
            return _problem(owner, f"unknown input field '{name}' for {owner.name}", name)
        if column not in header:
            return _problem(
                owner, f"property '{name}' is mapped to a column that the file does not have: '{column}'", name
            )
        wanted[column] = known[name]
    columns: dict[str, str] = {}
    for column in header:
        target = wanted.get(column) or known.get(column)
        if target is None:
            near = difflib.get_close_matches(column, list(known), n=1)
            advice = f"; did you mean '{near[0]}'?" if near else ""
            return _problem(owner, f"unknown input field '{column}' for {owner.name}{advice}", column)
        if target in columns:
            return _problem(owner, f"two columns give '{target}': '{columns[target]}' and '{column}'", column)
        columns[target] = column
    for target in ("src", "dst") if isinstance(owner, EdgeType) else ():
        if target not in columns:
            return _problem(owner, f"edge {owner.name} requires field '{_ENDPOINTS[target][0]}'", target)
    return Binding(owner=owner, columns=columns)


def _known_columns(owner: NodeType | EdgeType, *, is_exported: bool) -> dict[str, str]:
    known = {"id": "id", **{prop.name: prop.name for prop in owner.properties}}
    if isinstance(owner, EdgeType) and is_exported:
        known |= {column: column for column in _ENDPOINTS}
    elif isinstance(owner, EdgeType):
        for column, spellings in _ENDPOINTS.items():
            # A property of the same name, which the schema language allows, gives way to the endpoint.
            known |= dict.fromkeys(spellings, column)
    return known


def _problem(owner: NodeType | EdgeType, message: str, column: str) -> RowProblem:
    return RowProblem(line=_HEADER_LINE, rule="field", message=message, type_name=owner.name, property=column)
