"""The rules of a schema over the relations of a change: which are asked, and how what they find is described."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from omnigraph.catalog.model import ENDPOINTS, EdgeType
from omnigraph.engine.constraints.evaluation import display_text
from omnigraph.engine.constraints.evaluator import UNBOUNDED
from omnigraph.engine.constraints.set_rules import (
    CARDINALITY,
    ENDPOINT_MISSING,
    ORPHANED_EDGE,
    UNIQUE_IN_CHANGE,
    UNIQUE_WITH_STORED,
    SetRule,
)
from omnigraph.engine.constraints.violations import (
    RowPlace,
    describe_clash,
    describe_edge_count,
    describe_missing_end,
    describe_orphan,
)
from omnigraph.errors import Violation
from omnigraph.records import record
from omnigraph.spark.keys import KEY, Places, tuple_columns
from omnigraph.spark.rules import relations as texts
from omnigraph.spark.rules.change import StoredRelation, TypeKeys
from omnigraph.spark.rules.relations import RuleRelations, bind, over

# Where a finding stands among those of its rule: the row, or nothing and then a text; of equals the lower rank first.
Order = tuple[int, bytes, int]
# Where a rule stands among all of them: nodes before edges, by the name of the type, by number.
RulePlace = tuple[bool, bytes, int]
_ENDPOINTS_AT, _ORPHANS_AT, _CARDINALITY_AT = 1 << 20, (1 << 20) + 1, (1 << 20) + 2


@record
class Check:
    """A rule over its relations.

    Args:
        place: where it stands among the rules; buckets that ask it agree on that.
        rule: the rule.
        text: its text, bound, without order.
        report: a text for what it finds in its order, with what the description needs.
        describe: makes a violation of a row of that.
        order: where a row of that stands among what all buckets report.
        proof: a cheaper text that finds something whenever the rule does.
    """

    place: RulePlace
    rule: SetRule
    text: str
    report: str
    describe: Callable[[tuple[Any, ...]], Violation]
    order: Callable[[tuple[Any, ...]], Order]
    proof: str | None = None


def checks_of(relations: RuleRelations) -> Iterator[Check]:
    """Return the rules about keys and uniqueness of nodes, then those of each edge type."""
    change = relations.change
    for name in sorted(change.catalog.nodes, key=str.encode):
        keys = relations.keys_of(change.catalog.nodes[name])
        if keys is not None:
            yield from _uniqueness(relations, keys)
    for name in sorted(change.catalog.edges, key=str.encode):
        edge = change.catalog.edges[name]
        keys = relations.keys_of(edge)
        if keys is not None:
            yield from _uniqueness(relations, keys)
            yield _endpoints(relations, edge, keys)
        yield from _orphans(relations, edge, keys)
        if keys is not None:
            yield from _cardinality(relations, edge, keys)


def place_of(places: Places, row: int, entity_id: str | None) -> RowPlace:
    """Return a row of the change as violations name it."""
    source, line = places.of(row)
    return RowPlace(entity_id=entity_id, source=source, line=line)


def _uniqueness(relations: RuleRelations, keys: TypeKeys) -> Iterator[Check]:
    for number, column in enumerate(tuple_columns(keys.type)):
        if column == KEY:
            # The id follows from the key, so equal ids are equal keys; stored rows of the same id are replaced.
            if relations.engine.has_repeated_ids(keys):
                written = relations.written(keys, "id", by="id", value="id")
                yield _clash(relations, keys, column, UNIQUE_IN_CHANGE, {"written": written}, 2 * number)
            continue
        written = relations.written(keys, "id", by=column, value=column)
        within = _clash(relations, keys, column, UNIQUE_IN_CHANGE, {"written": written}, 2 * number)
        yield replace(within, proof=bind(texts.REPEATED_VALUE, written=written))
        if keys.replaces_all:
            continue
        image = relations.image(keys, "id", by=column, value=column)
        wanted = StoredRelation(type=keys.type, column=column, near=column, wanted=bind(texts.VALUES, written=image))
        stored = relations.engine.stored(wanted)
        if stored is not None:
            met = {"written": image, "stored": stored, "replaced": relations.replaced(keys, column)}
            yield _clash(relations, keys, column, UNIQUE_WITH_STORED, met, 2 * number + 1)


def _clash(
    relations: RuleRelations, keys: TypeKeys, column: str, rule: SetRule, met: dict[str, str], number: int
) -> Check:
    owner, names, places = keys.type, tuple_columns(keys.type)[column], relations.change.places
    text = over(rule, met)

    def describe(found: tuple[Any, ...]) -> Violation:
        row, other, *first_row, holder, value = found
        first = place_of(places, first_row[0], other) if first_row else None
        display = display_text(value, len(names))
        return describe_clash(owner, names, place_of(places, row, holder), display, other=other, first=first)

    beside = relations.engine.written(keys, ("id", column), "id" if column == KEY else column)
    return Check(
        place=_place(owner, number),
        rule=rule,
        text=text,
        report=texts.placed(rule, text, beside, ("id", column)),
        describe=describe,
        order=lambda found: (found[0], b"", 0),
    )


def _endpoints(relations: RuleRelations, edge: EdgeType, keys: TypeKeys) -> Check:
    nodes, places = relations.change.catalog.nodes, relations.change.places
    ends = {side: relations.image(keys, side, by=side) for side in ENDPOINTS}
    written = relations.engine.define(bind(texts.BOTH_ENDS, sources=ends["src"], targets=ends["dst"]))
    if edge.is_same_type:
        sources = targets = relations.nodes_after(nodes[edge.from_type], written, ENDPOINTS)
    else:
        sources = relations.nodes_after(nodes[edge.from_type], ends["src"], ENDPOINTS[:1])
        targets = relations.nodes_after(nodes[edge.to_type], ends["dst"], ENDPOINTS[1:])
    text = over(ENDPOINT_MISSING, {"written": written, "sources": sources, "targets": targets})

    def describe(found: tuple[Any, ...]) -> Violation:
        row, side, missing, identifier = found
        return describe_missing_end(edge, place_of(places, row, identifier), side, missing)

    ids = [relations.ids(keys, side) for side in ENDPOINTS]
    either = ids[0] if ids[0] == ids[1] else relations.engine.define(bind(texts.EITHER, ones=ids[0], others=ids[1]))
    return Check(
        place=_place(edge, _ENDPOINTS_AT),
        rule=ENDPOINT_MISSING,
        text=text,
        report=texts.placed(ENDPOINT_MISSING, text, either, ("id",)),
        describe=describe,
        order=lambda found: (found[0], b"", ENDPOINTS.index(found[1])),
    )


def _orphans(relations: RuleRelations, edge: EdgeType, keys: TypeKeys | None) -> Iterator[Check]:
    if keys is not None and keys.replaces_all:
        return
    nodes = relations.change.catalog.nodes
    lost = {}
    for side, node in zip(ENDPOINTS, (edge.from_type, edge.to_type), strict=True):
        gone = relations.gone(nodes[node])
        if gone is None:
            continue
        wanted = StoredRelation(type=edge, column=side, near=side, wanted=bind(texts.ALL_IDS, ids=gone))
        stored = relations.engine.stored(wanted)
        if stored is not None:
            lost[side] = texts.kept(stored, gone, side)
    if not lost:
        return
    kept = relations.engine.define(" UNION ALL ".join(lost.values()))
    text = over(ORPHANED_EDGE, {"kept": kept, "replaced": relations.replaced(keys, *lost)})
    yield Check(
        place=_place(edge, _ORPHANS_AT),
        rule=ORPHANED_EDGE,
        text=text,
        report=texts.ordered(ORPHANED_EDGE, text),
        describe=lambda found: describe_orphan(edge, *found),
        order=lambda found: (0, found[0].encode(), ENDPOINTS.index(found[1])),
    )


def _cardinality(relations: RuleRelations, edge: EdgeType, keys: TypeKeys) -> Iterator[Check]:
    rule, places = edge.cardinality, relations.change.places
    if not rule.minimum and rule.maximum is None:
        return
    engine = relations.engine
    written = relations.image(keys, "id", "src", by="src")
    touched = _touched(relations, edge, keys, written)
    stored = None
    if not keys.replaces_all:
        wanted = StoredRelation(type=edge, column="src", near="src", wanted=bind(texts.ALL_IDS, ids=touched))
        stored = engine.stored(wanted)
    gone = relations.gone(relations.change.catalog.nodes[edge.from_type])
    met = {
        "touched": touched,
        "gone": gone or engine.define(texts.NO_IDS),
        "written": written,
        "stored": stored or engine.define(texts.NO_EDGES),
        "replaced": relations.replaced(keys, "src"),
    }
    maximum = UNBOUNDED if rule.maximum is None else rule.maximum
    text = over(CARDINALITY, met, minimum=rule.minimum, maximum=maximum)
    # Where nothing is stored, sources have the edges that are written and no more.
    proof = texts.counts_outside(written, rule.minimum, maximum) if stored is None else None

    def describe(found: tuple[Any, ...]) -> Violation:
        source, edges, row, identifier = found
        return describe_edge_count(edge, source, edges, None if row is None else place_of(places, row, identifier))

    yield Check(
        place=_place(edge, _CARDINALITY_AT),
        rule=CARDINALITY,
        text=text,
        report=texts.placed(CARDINALITY, text, relations.ids(keys, "src"), ("id",)),
        describe=describe,
        order=lambda found: (0, found[0].encode(), 0),
        proof=proof,
    )


def _touched(relations: RuleRelations, edge: EdgeType, keys: TypeKeys, written: str) -> str:
    text = bind(texts.TOUCHED, edges=written)
    # Only a stored edge that is replaced can leave its source with fewer.
    if edge.cardinality.minimum and keys.replaces_some:
        left = relations.engine.left(keys)
        if left is not None:
            text = f"{text} UNION {bind(texts.LEFT, left=left)}"
    return relations.engine.define(text)


def _place(owner: Any, number: int) -> RulePlace:
    return isinstance(owner, EdgeType), owner.name.encode(), number
