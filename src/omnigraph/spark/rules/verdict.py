"""What is wrong with a change, if anything is: the error of the embedded path, and all problems on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import ENDPOINTS, EdgeType
from omnigraph.engine.constraints.evaluation import display_text
from omnigraph.engine.constraints.evaluator import UNBOUNDED
from omnigraph.engine.constraints.set_rules import (
    CARDINALITY,
    ENDPOINT_MISSING,
    ID_REPEATED,
    ID_TAKEN,
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
    describe_taken_id,
)
from omnigraph.errors import (
    ConstraintViolationError,
    ExistingKeys,
    KeyExistsError,
    OmnigraphError,
    Violation,
    Violations,
)
from omnigraph.records import record
from omnigraph.spark.keys import KEY, Places, tuple_columns
from omnigraph.spark.rules import relations as texts
from omnigraph.spark.rules.change import RuleEngine, StoredRelation, WrittenChange, WrittenType
from omnigraph.spark.rules.relations import RuleRelations, bind, over
from omnigraph.store.scratch import ScratchPlace
from omnigraph.txn.transaction import key_exists


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


def checks_of(relations: RuleRelations) -> Iterator[Check]:
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


def _uniqueness(relations: RuleRelations, part: WrittenType) -> Iterator[Check]:
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
        wanted = StoredRelation(
            type=part.type, column="value", tuple_of=names, near="value", wanted=bind(texts.VALUES, written=image)
        )
        stored = relations.engine.stored(wanted)
        if stored is not None:
            met = {"written": image, "stored": stored, "replaced": relations.replaced(part)}
            yield _clash(relations, part, column, UNIQUE_WITH_STORED, met)


def _clash(relations: RuleRelations, part: WrittenType, column: str, rule: SetRule, met: dict[str, str]) -> Check:
    owner, names, places = part.type, tuple_columns(part.type)[column], relations.change.places
    text = over(rule, met)

    def describe(found: tuple[Any, ...]) -> Violation:
        row, other, holder, value = found
        return describe_clash(owner, names, place_of(places, row, holder), display_text(value, len(names)), other)

    keys = relations.engine.keys(part, ("id", column))
    return Check(rule=rule, text=text, report=texts.placed(rule, text, keys, ("id", column)), describe=describe)


def _endpoints(relations: RuleRelations, edge: EdgeType, part: WrittenType) -> Check:
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


def _orphans(relations: RuleRelations, edge: EdgeType, part: WrittenType | None) -> Iterator[Check]:
    if part is not None and part.replaces_all:
        return
    nodes = relations.change.catalog.nodes
    lost = []
    for side, node in zip(ENDPOINTS, (edge.from_type, edge.to_type), strict=True):
        gone = relations.gone(nodes[node])
        if gone is None:
            continue
        wanted = StoredRelation(type=edge, column=side, near=side, wanted=bind(texts.ALL_IDS, ids=gone))
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


def _cardinality(relations: RuleRelations, edge: EdgeType, part: WrittenType) -> Iterator[Check]:
    rule, places = edge.cardinality, relations.change.places
    if not rule.minimum and rule.maximum is None:
        return
    engine = relations.engine
    written = relations.image(part, "id", "src")
    touched = _touched(relations, edge, part, written)
    stored = None
    if not part.replaces_all:
        wanted = StoredRelation(type=edge, column="src", near="src", wanted=bind(texts.ALL_IDS, ids=touched))
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


def _touched(relations: RuleRelations, edge: EdgeType, part: WrittenType, written: str) -> str:
    text = bind(texts.TOUCHED, edges=written)
    # Only a stored edge that is replaced can leave its source with fewer.
    can_leave = edge.cardinality.minimum and not (part.replaces_all or part.strict or part.has_fresh_ids)
    if can_leave:
        ids = relations.ids(part)
        stored = relations.engine.stored(StoredRelation(type=edge, column="src", wanted=bind(texts.ALL_IDS, ids=ids)))
        if stored is not None:
            text = f"{text} UNION {bind(texts.LEFT, stored=stored, written=ids)}"
    return relations.engine.define(text)


NO_VIOLATIONS = Violations(items=(), total=0)
_SHOWN_IDS = 20
_FEW = 100
_BATCH = 10_000
_PROBLEMS = pa.schema(
    [pa.field(item.name, pa.int64() if item.name == "line" else pa.string()) for item in fields(Violation)]
)


@record
class Superseded:
    """Rows of a type that a later row of the same id replaces: Arrow objects with one column ``row``, ascending."""

    files: tuple[str, ...]
    rows: int


@record
class Verdict:
    """What came out.

    Args:
        error: what the embedded path would raise; None when the change may be published.
        problems: the scratch object with every problem that the error stands for, if one was wanted.
        superseded: by table, the rows that must not be written; only of types that have any.
    """

    error: OmnigraphError | None = None
    problems: str | None = None
    superseded: Mapping[str, Superseded] = field(default_factory=dict)

    def every_problem(self, scratch: ScratchPlace) -> Iterator[Violation]:
        """Stream the problems in their order."""
        if self.problems is not None:
            for batch in scratch.read_arrow(self.problems):
                for item in batch.to_pylist():
                    yield Violation(**item)


@record
class Question:
    """How a verdict is wanted.

    Args:
        limit: how many violations the error holds.
        before: violations of rows by themselves, which come first.
        problems: the scratch object to write every problem to, those of ``before`` not among them.
        superseded: how the names of scratch objects for superseded rows start; without it they are not looked for.
    """

    limit: int = 100
    before: Violations = NO_VIOLATIONS
    problems: str | None = None
    superseded: str | None = None


def judge(change: WrittenChange, engine: RuleEngine, question: Question) -> Verdict:
    """Return what the embedded path would say about a change.

    An id that may not be there yet and is comes first, then every rule of the schema, then an id that stands twice.
    """
    relations = RuleRelations(change=change, engine=engine)
    for part in change.types.values():
        taken = _taken(relations, part)
        if taken is not None:
            return _existing(relations, part, taken, question)
    found = _Findings(relations, question)
    found.collect()
    if found.total:
        listed = Violations(items=tuple(found.items), total=found.total)
        error = ConstraintViolationError(listed.items[0].message, details=listed)
        return Verdict(error=error, problems=question.problems)
    for part in change.types.values():
        if part.demands_each_id_once and part.type.key is None and relations.has_repeated_ids(part):
            return _existing(relations, part, _Existing.repeated(relations, part), question)
    if question.superseded is None:
        return Verdict()
    return Verdict(superseded=find_superseded(relations, question.superseded))


def find_superseded(relations: RuleRelations, name: str) -> dict[str, Superseded]:
    """Write down the rows that a later row of the same id replaces, per table that has any."""
    found: dict[str, Superseded] = {}
    for key, part in relations.change.types.items():
        last = relations.last(part)
        if last is not None:
            text = bind(texts.SUPERSEDED, keys=relations.ids(part), last=last)
            files = relations.engine.save(f"{text} ORDER BY `row`", f"{name}-{len(found)}")
            found[key] = Superseded(files=files, rows=_count(relations.engine, text, "superseded"))
    return found


class _Findings:
    """Collects what the rules find: the first few violations, how many there are, and all of them on request."""

    def __init__(self, relations: RuleRelations, question: Question) -> None:
        self._relations = relations
        self._question = question
        self._limit = max(question.limit, 1)
        self.items = list(question.before.items[: self._limit])
        self.total = question.before.total

    def collect(self) -> None:
        if self._question.problems is None:
            for check, _ in self._broken():
                room = self._limit - len(self.items)
                self.items += self._described(check, room) if room else ()
            return
        scratch = self._relations.change.scratch
        scratch.write_arrow(self._question.problems, _batches(self._every()), schema=_PROBLEMS)

    def _every(self) -> Iterator[Violation]:
        for check, count in self._broken():
            # Rows that are few enough to be held are got in one go.
            for violation in self._described(check, count if count <= _BATCH else None):
                if len(self.items) < self._limit:
                    self.items.append(violation)
                yield violation

    def _broken(self) -> Iterator[tuple[Check, int]]:
        """Return the rules that find something, and how much."""
        engine = self._relations.engine
        for check in checks_of(self._relations):
            name = check.rule.name
            if check.proof is not None and self._relations.is_empty(check.proof, name):
                continue
            # Most rules find nothing and many little, which a look at the first few tells without a count.
            count = len(list(engine.rows(check.text, asks=name, limit=_FEW)))
            if count == _FEW:
                count = _count(engine, check.text, name)
            if count:
                self.total += count
                yield check, count

    def _described(self, check: Check, limit: int | None) -> Iterator[Violation]:
        for row in self._relations.engine.rows(check.report, asks=check.rule.name, limit=limit):
            yield check.describe(row)


@record
class _Existing:
    """A rule about ids that has found some, and the text for all rows it is about."""

    rule: SetRule
    text: str
    rows: str

    @classmethod
    def repeated(cls, relations: RuleRelations, part: WrittenType) -> _Existing:
        ids = relations.ids(part)
        text = over(ID_REPEATED, {"written": ids})
        rows = bind(texts.REPEATED, keys=ids, repeated=relations.engine.define(text))
        return cls(rule=ID_REPEATED, text=text, rows=rows)


def _taken(relations: RuleRelations, part: WrittenType) -> _Existing | None:
    if not part.strict or part.has_fresh_ids:
        return None
    ids = relations.ids(part)
    stored = relations.engine.stored(StoredRelation(type=part.type, wanted=bind(texts.ALL_IDS, ids=ids)))
    if stored is None:
        return None
    text = over(ID_TAKEN, {"written": ids, "stored": stored})
    if relations.is_empty(text, ID_TAKEN.name):
        return None
    return _Existing(rule=ID_TAKEN, text=text, rows=texts.ordered(ID_TAKEN, text))


def _existing(relations: RuleRelations, part: WrittenType, found: _Existing, question: Question) -> Verdict:
    engine, places = relations.engine, relations.change.places
    count = _count(engine, found.text, found.rule.name)
    first = list(engine.rows(texts.ordered(found.rule, found.text), asks=found.rule.name, limit=_SHOWN_IDS))
    error = key_exists(part.type.table_key, [identifier for _, identifier in first])
    source, line = places.of(first[0][0])
    details = error.details
    if isinstance(details, ExistingKeys):
        details = replace(details, count=count)
    if question.problems is not None:
        rows = engine.rows(found.rows, asks=found.rule.name)
        described = (describe_taken_id(part.type, place_of(places, row, identifier)) for row, identifier in rows)
        relations.change.scratch.write_arrow(question.problems, _batches(described), schema=_PROBLEMS)
    located = KeyExistsError(f"{source}:{line}: {error.message}", details=details)
    return Verdict(error=located, problems=question.problems)


def _count(engine: RuleEngine, text: str, asks: str) -> int:
    ((count,),) = engine.rows(texts.counted(text), asks=asks, limit=1)
    return int(count)


def _batches(violations: Iterable[Violation]) -> Iterator[pa.RecordBatch]:
    rest = iter(violations)
    while some := list(islice(rest, _BATCH)):
        columns = [pa.array([getattr(item, at.name) for item in some], at.type) for at in _PROBLEMS]
        yield pa.record_batch(columns, schema=_PROBLEMS)
