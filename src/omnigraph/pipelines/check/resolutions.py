"""What is wrong with resolutions that keep what they decide, against the schema: their types, ids and records.

A run that reads only what is new compares it with the records that are stored. Whatever it needs of them has to be
among their properties, which is told here and not when something is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import FLOATS, EdgeType, NodeType
from omnigraph.errors import Mistake
from omnigraph.pipelines.check.types import names_hint, required_of
from omnigraph.pipelines.mistakes import near_name, step_mistake
from omnigraph.pipelines.model import Declaration, ResolveStep, TypeStep
from omnigraph.pipelines.order import ancestors_of, sources_of
from omnigraph.pipelines.sql import names_in
from omnigraph.spark.resolution.model import DECISIONS

DECISION, SCORE = "decision", "score"
"""The properties of evidence; the similarity of a column is in ``score_<column>``."""


def resolution_mistakes(declaration: Declaration, catalog: Catalog, *, is_stream: bool = False) -> Iterator[Mistake]:
    """Yield what is wrong with the resolutions that keep their entities."""
    first: dict[str, str] = {}
    for step in declaration.resolves:
        member = _edge(step, "same_as", catalog)
        pair = _edge(step, "evidence", catalog)
        yield from (one for one in (member, pair) if isinstance(one, Mistake))
        if isinstance(member, EdgeType):
            before = first.setdefault(member.to_type, step.name)
            if before != step.name:
                message = f"'{before}' has entities of {member.to_type} already"
                yield step_mistake(
                    step, message, "combine them into one resolution, or use another type", key="same_as"
                )
            yield from _member_mistakes(step, member, catalog)
            yield from _entity_mistakes(declaration, step, catalog.nodes[member.to_type])
            yield from _record_mistakes(declaration, step, catalog.nodes[member.from_type])
            if is_partial(declaration, step, is_stream=is_stream):
                yield from _partial_mistakes(declaration, step, catalog.nodes[member.from_type])
        if isinstance(member, EdgeType) and isinstance(pair, EdgeType):
            yield from _pair_mistakes(step, pair, member)


def is_partial(declaration: Declaration, step: ResolveStep, *, is_stream: bool = False) -> bool:
    """Whether runs give a resolution only what is new of its records."""
    sources = sources_of(declaration, step.name)
    return is_stream or any(source.incremental is not None for source in sources)


def writer_of(declaration: Declaration, name: str) -> TypeStep | None:
    """Return the step that writes a node type."""
    steps = (step for step in declaration.types if step.kind == "node" and step.type_name == name)
    return next(steps, None)


def takes_rows_of(writer: TypeStep, step: ResolveStep) -> bool:
    """Whether a step writes the rows of a resolution as they are."""
    return writer.sql is None and writer.function is None and writer.inputs == (step.name,)


def takes_rows_with(writer: TypeStep, step: ResolveStep) -> bool:
    """Whether a step writes the rows that a resolution takes as well."""
    is_plain = all(one.sql is None and one.function is None for one in (writer, step))
    return is_plain and writer.inputs == step.inputs


def unstored(step: ResolveStep, records: NodeType, columns: Iterable[str], *, used_by: str) -> Iterator[Mistake]:
    """Yield columns that records of earlier runs do not have."""
    for name in columns:
        if name != step.id_column and records.get(name) is None:
            known = [prop.name for prop in records.properties]
            message = (
                f"column '{name}' {used_by}, but records of earlier runs do not have it: "
                f"{records.name} has no property '{name}', and a source of theirs is read incrementally"
            )
            hint = near_name(name, known) or "store it, leave it out in a view, or read the source as a whole"
            yield step_mistake(step, message, hint, key="compare")


def _edge(step: ResolveStep, key: str, catalog: Catalog) -> EdgeType | Mistake | None:
    name: str | None = getattr(step, key)
    if name is None:
        return None
    edge = catalog.edges.get(name)
    if edge is None:
        hint = "it is a node type" if name in catalog.nodes else near_name(name, catalog.edges)
        return step_mistake(
            step, f"unknown edge type '{name}'", hint or names_hint("edge types", catalog.edges), key=key
        )
    if edge.key != ("src", "dst"):
        message = f"edges of {name} are identified by their ends, but the type has no @key of them"
        return step_mistake(step, message, "add @key(src, dst) to it in the schema", key=key)
    return edge


def _member_mistakes(step: ResolveStep, member: EdgeType, catalog: Catalog) -> Iterator[Mistake]:
    entity = catalog.nodes[member.to_type]
    if member.from_type == member.to_type:
        message = f"{member.name} leads from {member.from_type} to itself, and entities are nodes of another type"
        yield step_mistake(step, message, "let it lead from records to entities", key="same_as")
        return
    for name in required_of(member):
        hint = "make it optional, or add a default in the schema"
        yield step_mistake(
            step, f"{member.name} requires '{name}', which a resolution does not set", hint, key="same_as"
        )
    props = [entity.get(name) for name in entity.key or ()]
    is_text = len(props) == 1 and props[0] is not None and props[0].type.is_text and not props[0].type.enum_values
    if not is_text:
        message = f"{entity.name} needs a key of one String, the canonical id of an entity"
        yield step_mistake(step, message, f"such as canonical: String @key in {entity.name}", key="same_as")


def _entity_mistakes(declaration: Declaration, step: ResolveStep, entity: NodeType) -> Iterator[Mistake]:
    writer = writer_of(declaration, entity.name)
    if writer is None:
        for name in required_of(entity):
            if name not in (entity.key or ()):
                message = f"{entity.name} requires '{name}', which a resolution does not set"
                hint = f"declare a node {entity.name} of the rows of '{step.name}', or make it optional in the schema"
                yield step_mistake(step, message, hint, key="same_as")
        return
    if step.name not in ancestors_of(declaration, writer.name):
        message = f"'{writer.name}' writes the entities of '{step.name}' from other rows"
        yield step_mistake(writer, message, f"use '{step.name}' as input, and canonical_id as key", key="input")
    if writer.sequence is not None:
        message = f"the rows of an entity change with its records, so that no sequence orders those of {entity.name}"
        yield step_mistake(writer, message, "use dedupe", key="sequence")


def _record_mistakes(declaration: Declaration, step: ResolveStep, records: NodeType) -> Iterator[Mistake]:
    if records.get(step.id_column) is not None and records.key != (step.id_column,):
        key = "no key" if records.key is None else f"the key {', '.join(records.key)}"
        message = f"'{step.id_column}' does not identify records: {records.name} has {key}"
        yield step_mistake(step, message, "name a column with the ids of the nodes", key="id")
        return
    writer = writer_of(declaration, records.name)
    if writer is None or records.key is None or len(records.key) != 1:
        return
    shares_rows = takes_rows_of(writer, step) or takes_rows_with(writer, step)
    made_of = (writer.key or writer.set.get(records.key[0]) or records.key[0]).strip()
    if shares_rows and made_of.strip("`") != step.id_column:
        message = f"'{step.id_column}' is not the id of a {records.name}: '{writer.name}' makes it of {made_of}"
        yield step_mistake(step, message, "add that id as a column in a view, and name the column", key="id")


def _partial_mistakes(declaration: Declaration, step: ResolveStep, records: NodeType) -> Iterator[Mistake]:
    compared = [column for column, _, _ in step.comparisons]
    yield from unstored(step, records, compared, used_by="is compared")
    writer = writer_of(declaration, records.name)
    if writer is None:
        return
    blocking = frozenset[str]().union(*map(names_in, step.blocking))
    for name, text in writer.set.items():
        used = "is compared" if name in compared else "makes blocks" if name.lower() in blocking else None
        if used is not None and text.strip().strip("`") != name:
            message = (
                f"column '{name}' {used}, but is stored as {text}, so new records would be compared "
                "with different values"
            )
            yield step_mistake(step, message, "compute the value in a view before both", key="compare")
    for key, is_given in (("deletes", writer.deletes is not None), ("mode", writer.mode == "overwrite")):
        if is_given:
            message = (
                f"'{writer.name}' removes records, but '{step.name}' would still read them from the "
                "graph, because one of their sources is incremental"
            )
            hint = "read the source as a whole, or delete them with removes_missing in a full refresh"
            yield step_mistake(writer, message, hint, key=key)


def _pair_mistakes(step: ResolveStep, pair: EdgeType, member: EdgeType) -> Iterator[Mistake]:
    record = member.from_type
    if (pair.from_type, pair.to_type) != (record, record):
        message = f"{pair.name} leads from {pair.from_type} to {pair.to_type}, and evidence from {record} to itself"
        yield step_mistake(step, message, key="evidence")
        return
    decision = pair.get(DECISION)
    words = None if decision is None else decision.type.enum_values
    if decision is None or not decision.type.is_text or not (words is None or set(DECISIONS) <= set(words)):
        message = f"{pair.name} has no String property '{DECISION}' for decisions"
        yield step_mistake(step, message, f"add {DECISION}: String to it in the schema", key="evidence")
    scores = {SCORE, *(f"{SCORE}_{column}" for column, _, _ in step.comparisons)}
    for prop in pair.properties:
        if prop.name in scores and (not prop.type.nullable or prop.type.scalar not in FLOATS or prop.type.is_list):
            message = f"'{prop.name}' of {pair.name} is {prop.type}, and pairs that people decide may have none"
            yield step_mistake(step, message, f"use {prop.name}: F64?", key="evidence")
    for name in required_of(pair):
        if name not in scores and name != DECISION:
            hint = "make it optional, or add a default in the schema"
            yield step_mistake(
                step, f"{pair.name} requires '{name}', which a resolution does not set", hint, key="evidence"
            )
