"""What is wrong with the steps that write, against the schema of the graph: types, properties, keys and ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.catalog import Catalog
from omnigraph.catalog.defaults import has_default
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.errors import Mistake, UsageError
from omnigraph.pipelines.mistakes import near_name, step_mistake
from omnigraph.pipelines.model import Declaration, TypeStep
from omnigraph.pipelines.sql import called_name, end_of
from omnigraph.values.counts import counted

ENDS = {"src": ("from", "src"), "dst": ("to", "dst")}
"""The columns that an end of an edge may have."""


def type_mistakes(declaration: Declaration, catalog: Catalog) -> Iterator[Mistake]:
    """Yield what is wrong with the steps that write."""
    for step in declaration.types:
        owner = owner_of(step, catalog)
        if owner is None:
            yield _unknown_type(step, catalog)
            continue
        yield from _property_mistakes(step, owner)
        yield from _key_mistakes(step, owner)
        if isinstance(owner, EdgeType):
            yield from _end_mistakes(step, owner, catalog)


def owner_of(step: TypeStep, catalog: Catalog) -> NodeType | EdgeType | None:
    """Return the type that a step writes; None if there is none of this name."""
    return catalog.nodes.get(step.type_name) if step.kind == "node" else catalog.edges.get(step.type_name)


def required_of(owner: NodeType | EdgeType) -> tuple[str, ...]:
    """Return the properties that a row must give; those with a default and computed vectors need not be given."""
    return tuple(
        prop.name
        for prop in owner.properties
        if not prop.type.nullable and not has_default(prop) and prop.embed is None
    )


def _unknown_type(step: TypeStep, catalog: Catalog) -> Mistake:
    known: Iterable[str] = catalog.nodes if step.kind == "node" else catalog.edges
    others = catalog.edges if step.kind == "node" else catalog.nodes
    message = f"unknown {step.kind} type '{step.type_name}'"
    if step.type_name in others:
        other = "an edge" if step.kind == "node" else "a node"
        return step_mistake(step, message, f"it is {other} type", key="type")
    hint = near_name(step.type_name, known) or names_hint(f"{step.kind} types", known)
    return step_mistake(step, message, hint, key="type")


def names_hint(what: str, known: Iterable[str]) -> str:
    """Return the hint that lists what there is."""
    listed = ", ".join(known)
    return f"the {what} are {listed}" if listed else f"the schema has no {what}"


def _property_mistakes(step: TypeStep, owner: NodeType | EdgeType) -> Iterator[Mistake]:
    known = [prop.name for prop in owner.properties]
    for name in step.set:
        key = f"set.{name}"
        if name in {"id", "from", "to", "src", "dst"} and owner.get(name) is None:
            instead = "key" if name == "id" else "src" if name in {"from", "src"} else "dst"
            if name == "id" or isinstance(owner, EdgeType):
                yield step_mistake(step, f"'{name}' is not a property of {owner.name}", f"use {instead}", key=key)
                continue
        if owner.get(name) is None:
            hint = near_name(name, known) or names_hint("properties", known)
            yield step_mistake(step, f"{owner.name} has no property '{name}'", hint, key=key)


def _key_mistakes(step: TypeStep, owner: NodeType | EdgeType) -> Iterator[Mistake]:
    if owner.key is None:
        if isinstance(owner, NodeType) and step.key is None and step.mode != "append":
            hint = "set key to an expression that is unique for an entity, or add @key to the schema"
            yield step_mistake(step, f"{owner.name} has no key in the schema, and '{step.name}' sets none", hint)
        return
    if step.key is None:
        return
    if len(owner.key) > 1 and tuple(part.strip() for part in step.key.split(",")) != owner.key:
        listed = ", ".join(owner.key)
        hint = f"leave it out; the key follows from {listed}"
        yield step_mistake(step, f"the key of {owner.name} is ({listed}), not {step.key}", hint, key="key")
    if owner.key[0] in step.set and len(owner.key) == 1 and step.key.strip() != owner.key[0]:
        message = f"key and set both assign '{owner.key[0]}', the key of {owner.name}"
        yield step_mistake(step, message, "leave out one", key="key")


def _end_mistakes(step: TypeStep, owner: EdgeType, catalog: Catalog) -> Iterator[Mistake]:
    for side, name in (("src", owner.from_type), ("dst", owner.to_type)):
        text = getattr(step, side)
        node = catalog.nodes[name]
        if text is not None:
            yield from _end_mistakes_of(step, side, text, node, catalog)
        lacks = [one for one in required_of(node) if one not in (node.key or ())]
        if step.missing_end == "stub" and lacks:
            hint = f"make {lacks[0]} optional or add a default in the schema, or put such edges into quarantine"
            message = f"a stub of {name} would lack '{lacks[0]}', which must have a value"
            yield step_mistake(step, message, hint, key="missing_end")


def _end_mistakes_of(step: TypeStep, side: str, text: str, node: NodeType, catalog: Catalog) -> Iterator[Mistake]:
    try:
        end = end_of(text, catalog.nodes)
    except UsageError:
        # Told with all other texts that do not parse.
        return
    called = called_name(text)
    if end.type_name is None:
        hint = None if called is None else near_name(called, catalog.nodes)
        # A function may be called in any letter case; what is near to a type and written like one is meant as one.
        if called is not None and hint is not None and called[0].isupper() and not called.isupper():
            yield step_mistake(step, f"unknown node type '{called}'", hint, key=side)
        return
    if end.type_name != node.name:
        message = f"{side} of {step.type_name} is of type {node.name}, not {end.type_name}"
        yield step_mistake(step, message, key=side)
        return
    wanted = node.key or ("id",)
    if len(end.expressions) != len(wanted) or not all(end.expressions):
        values = counted(len([one for one in end.expressions if one]), "value")
        message = f"{side} has {values} for the key of {node.name}"
        yield step_mistake(step, message, f"write {node.name}({', '.join(wanted)})", key=side)
