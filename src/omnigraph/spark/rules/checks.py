"""Which rules a change is judged by, in the order of the embedded evaluator, and what their findings say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from omnigraph.catalog.model import ENDPOINTS, EdgeType
from omnigraph.engine.constraints.cardinality import UNBOUNDED
from omnigraph.engine.constraints.set_rules import (
    CARDINALITY,
    ENDPOINT_MISSING,
    ORPHANED_EDGE,
    UNIQUE_IN_CHANGE,
    UNIQUE_WITH_STORED,
    SetRule,
)
from omnigraph.engine.constraints.tuples import display_text
from omnigraph.engine.describing import (
    RowPlace,
    describe_clash,
    describe_edge_count,
    describe_missing_end,
    describe_orphan,
)
from omnigraph.errors import Violation
from omnigraph.records import record
from omnigraph.spark.keys import KEY, Places, tuple_columns
from omnigraph.spark.rules import texts
from omnigraph.spark.rules.change import WrittenType
from omnigraph.spark.rules.engine import StoredRows
from omnigraph.spark.rules.relations import Relations
from omnigraph.spark.rules.texts import bind, over


@record
class Check:
    """A rule over its relations.

    Args:
        rule: the rule.
        text: its text, bound, without order.
        report: a text for what it finds in its order, with what the description needs.
        describe: makes a violation of a row of that.
        proof: a cheaper text that finds something whenever the rule does.
    """

    rule: SetRule
    text: str
    report: str
    describe: Callable[[tuple[Any, ...]], Violation]
    proof: str | None = None


def checks_of(relations: Relations) -> Iterator[Check]:
    """Return the rules about keys and uniqueness of nodes, then those of each edge type."""
    change = relations.change
    for name in sorted(change.catalog.nodes, key=str.encode):
        part = relations.part(change.catalog.nodes[name])
        if part is not None:
            yield from _uniqueness(relations, part)
    # An edge type that the change does not write to can still lose the nodes it joins.
    for name in sorted(change.catalog.edges, key=str.encode):
        edge = change.catalog.edges[name]
        part = relations.part(edge)
        if part is not None:
            yield from _uniqueness(relations, part)
            yield _endpoints(relations, edge, part)
        yield from _orphans(relations, edge, part)
        if part is not None:
            yield from _cardinality(relations, edge, part)


def place_of(places: Places, row: int, entity_id: str | None) -> RowPlace:
    """Return a row of the change as violations name it."""
    source, line = places.of(row)
    return RowPlace(entity_id=entity_id, source=source, line=line)


def _uniqueness(relations: Relations, part: WrittenType) -> Iterator[Check]:
    for column, names in tuple_columns(part.type).items():
        if column == KEY:
            # The id follows from the key, so equal ids are equal keys; stored rows of the same id are replaced.
            if relations.has_repeated_ids(part):
                written = relations.written(part, "id", value="id")
                yield _clash(relations, part, column, UNIQUE_IN_CHANGE, {"written": written})
            continue
        written = relations.written(part, "id", value=column)
        within = _clash(relations, part, column, UNIQUE_IN_CHANGE, {"written": written})
        yield replace(within, proof=bind(texts.REPEATED_VALUE, written=written))
        if part.replaces_all:
            continue
        image = relations.image(part, "id", value=column)
        wanted = StoredRows(
            type=part.type, column="value", tuple_of=names, near="value", wanted=bind(texts.VALUES, written=image)
        )
        stored = relations.engine.stored(wanted)
        if stored is not None:
            met = {"written": image, "stored": stored, "replaced": relations.replaced(part)}
            yield _clash(relations, part, column, UNIQUE_WITH_STORED, met)


def _clash(relations: Relations, part: WrittenType, column: str, rule: SetRule, met: dict[str, str]) -> Check:
    owner, names, places = part.type, tuple_columns(part.type)[column], relations.change.places
    text = over(rule, met)

    def describe(found: tuple[Any, ...]) -> Violation:
        row, other, holder, value = found
        return describe_clash(owner, names, place_of(places, row, holder), display_text(value, len(names)), other)

    keys = relations.engine.keys(part, ("id", column))
    return Check(rule=rule, text=text, report=texts.placed(rule, text, keys, ("id", column)), describe=describe)


def _endpoints(relations: Relations, edge: EdgeType, part: WrittenType) -> Check:
    nodes, places = relations.change.catalog.nodes, relations.change.places
    written = relations.image(part, *ENDPOINTS)
    if edge.is_same_type:
        sources = targets = relations.nodes_after(nodes[edge.from_type], written, ENDPOINTS)
    else:
        sources = relations.nodes_after(nodes[edge.from_type], written, ENDPOINTS[:1])
        targets = relations.nodes_after(nodes[edge.to_type], written, ENDPOINTS[1:])
    text = over(ENDPOINT_MISSING, {"written": written, "sources": sources, "targets": targets})

    def describe(found: tuple[Any, ...]) -> Violation:
        row, side, missing, identifier = found
        return describe_missing_end(edge, place_of(places, row, identifier), side, missing)

    report = texts.placed(ENDPOINT_MISSING, text, relations.ids(part), ("id",))
    return Check(rule=ENDPOINT_MISSING, text=text, report=report, describe=describe)


def _orphans(relations: Relations, edge: EdgeType, part: WrittenType | None) -> Iterator[Check]:
    if part is not None and part.replaces_all:
        return
    nodes = relations.change.catalog.nodes
    lost = []
    for side, node in zip(ENDPOINTS, (edge.from_type, edge.to_type), strict=True):
        gone = relations.gone(nodes[node])
        if gone is None:
            continue
        wanted = StoredRows(type=edge, column=side, near=side, wanted=bind(texts.ALL_IDS, ids=gone))
        stored = relations.engine.stored(wanted)
        if stored is not None:
            lost.append(texts.kept(stored, gone, side))
    if not lost:
        return
    kept = relations.engine.define(" UNION ALL ".join(lost))
    text = over(ORPHANED_EDGE, {"kept": kept, "replaced": relations.replaced(part)})
    yield Check(
        rule=ORPHANED_EDGE,
        text=text,
        report=texts.ordered(ORPHANED_EDGE, text),
        describe=lambda found: describe_orphan(edge, *found),
    )


def _cardinality(relations: Relations, edge: EdgeType, part: WrittenType) -> Iterator[Check]:
    rule, places = edge.cardinality, relations.change.places
    if not rule.minimum and rule.maximum is None:
        return
    engine = relations.engine
    written = relations.image(part, "id", "src")
    touched = _touched(relations, edge, part, written)
    stored = None
    if not part.replaces_all:
        wanted = StoredRows(type=edge, column="src", near="src", wanted=bind(texts.ALL_IDS, ids=touched))
        stored = engine.stored(wanted)
    gone = relations.gone(relations.change.catalog.nodes[edge.from_type])
    met = {
        "touched": touched,
        "gone": gone or engine.define(texts.NO_IDS),
        "written": written,
        "stored": stored or engine.define(texts.NO_EDGES),
        "replaced": relations.replaced(part),
    }
    maximum = UNBOUNDED if rule.maximum is None else rule.maximum
    text = over(CARDINALITY, met, minimum=rule.minimum, maximum=maximum)
    # Where nothing is stored, sources have the edges that are written and no more.
    proof = texts.counts_outside(written, rule.minimum, maximum) if stored is None else None

    def describe(found: tuple[Any, ...]) -> Violation:
        source, edges, row, identifier = found
        return describe_edge_count(edge, source, edges, None if row is None else place_of(places, row, identifier))

    report = texts.placed(CARDINALITY, text, relations.ids(part), ("id",))
    yield Check(rule=CARDINALITY, text=text, report=report, describe=describe, proof=proof)


def _touched(relations: Relations, edge: EdgeType, part: WrittenType, written: str) -> str:
    text = bind(texts.TOUCHED, edges=written)
    # Only a stored edge that is replaced can leave its source with fewer.
    can_leave = edge.cardinality.minimum and not (part.replaces_all or part.strict or part.has_fresh_ids)
    if can_leave:
        ids = relations.ids(part)
        stored = relations.engine.stored(StoredRows(type=edge, column="src", wanted=bind(texts.ALL_IDS, ids=ids)))
        if stored is not None:
            text = f"{text} UNION {bind(texts.LEFT, stored=stored, written=ids)}"
    return relations.engine.define(text)
