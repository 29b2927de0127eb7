"""What is wrong with a change, if anything is: the error of the embedded path, and all problems on request.

What rules find is found bucket by bucket and put together here; a change in one piece is one bucket.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from omnigraph.engine.constraints.set_rules import ID_REPEATED, ID_TAKEN
from omnigraph.engine.constraints.violations import describe_taken_id
from omnigraph.errors import (
    ConstraintViolationError,
    ExistingKeys,
    KeyExistsError,
    OmnigraphError,
    Violation,
    Violations,
)
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.rules import relations as texts
from omnigraph.spark.rules.change import ChangeKeys, RuleEngine, StoredRelation, TypeKeys
from omnigraph.spark.rules.checks import Check, Order, RulePlace, checks_of, place_of
from omnigraph.spark.rules.relations import RuleRelations, bind, over
from omnigraph.store.scratch import ScratchPlace
from omnigraph.txn.transaction import key_exists

NO_VIOLATIONS = Violations(items=(), total=0)
_SHOWN_IDS = 20
_FEW = 100
_BATCH = 10_000
_ROWS = "SELECT s.`row` AS `row` FROM `some` s"
_ORDER = (":row", ":text", ":rank")
_PROBLEMS = pa.schema(
    [
        *(pa.field(item.name, pa.int64() if item.name == "line" else pa.string()) for item in fields(Violation)),
        pa.field(":row", pa.int64()),
        pa.field(":text", pa.binary()),
        pa.field(":rank", pa.int64()),
    ]
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
        problems: the scratch objects with every problem that the error stands for, if they were wanted: rule by rule
            those of each bucket, in order.
        superseded: by table, the rows that must not be written; only of types that have any.
    """

    error: OmnigraphError | None = None
    problems: tuple[tuple[str, ...], ...] = ()
    superseded: Mapping[str, Superseded] = field(default_factory=dict)

    def every_problem(self, scratch: ScratchPlace) -> Iterator[Violation]:
        """Stream the problems in their order."""
        for files in self.problems:
            for _, problem in heapq.merge(*(_read_problems(scratch, name) for name in files), key=_first):
                yield problem


@record
class Question:
    """How a verdict is wanted.

    Args:
        limit: how many violations the error holds.
        before: violations of rows by themselves, which come first.
        keeps_problems: write every problem to scratch objects, those of ``before`` not among them.
        wants_superseded: look for superseded rows when nothing is wrong.
    """

    limit: int = 100
    before: Violations = NO_VIOLATIONS
    keeps_problems: bool = False
    wants_superseded: bool = False


@record
class Found:
    """What a rule has found in a bucket.

    Args:
        count: how much.
        first: the first of it, and where each stands.
        file: the scratch object with all of it, in order, when that is wanted.
    """

    count: int
    first: tuple[tuple[Order, Violation], ...]
    file: str | None = None


@record
class IdFindings:
    """What is found about the ids of a bucket, by table; tables that nothing was found of are left out."""

    taken: Mapping[str, Found]
    repeated: Mapping[str, Found]
    superseded: Mapping[str, Superseded]


RuleFindings = Mapping[RulePlace, Found]


def look_at_ids(relations: RuleRelations, question: Question) -> IdFindings:
    """Look for ids that are taken, that stand twice, and for rows that later ones replace."""
    taken: dict[str, Found] = {}
    repeated: dict[str, Found] = {}
    superseded: dict[str, Superseded] = {}
    for key, keys in relations.change.types.items():
        if keys.has_fresh_ids:
            continue
        found = _taken(relations, keys, question)
        if found is not None:
            taken[key] = found
        if taken or not relations.engine.has_repeated_ids(keys):
            continue
        if keys.demands_each_id_once:
            repeated[key] = _repeated(relations, keys, question)
        gone = relations.engine.superseded(keys, "id") if question.wants_superseded else None
        if gone is not None:
            name = _fresh_name("superseded")
            text = bind(_ROWS, some=gone)
            relations.engine.save(f"{text} ORDER BY `row`", name)
            superseded[key] = Superseded(files=(name,), rows=_count(relations.engine, text, "superseded"))
    return IdFindings(taken=taken, repeated=repeated, superseded=superseded)


def ask_rules(relations: RuleRelations, question: Question) -> RuleFindings:
    """Return what the rules of the schema find, of those that find something."""
    room = max(question.limit, 1) - min(len(question.before.items), question.limit)
    found: dict[RulePlace, Found] = {}
    for check, count in _broken(relations):
        answers = _answers(relations, check, None if question.keeps_problems and count > _BATCH else count, question)
        one = _noted(relations.change.scratch, answers, count, room, question)
        room -= len(one.first)
        found[check.place] = one
    return found


def verdict_of(
    change: ChangeKeys, question: Question, ids: Sequence[IdFindings], rules: Sequence[RuleFindings]
) -> Verdict:
    """Return what the embedded path would say about a change of which this was found in its buckets.

    An id that may not be there yet and is comes first, then every rule of the schema, then an id that stands twice.
    """
    for key, keys in change.types.items():
        taken = [one.taken[key] for one in ids if key in one.taken]
        if taken:
            return _existing(keys, taken)
    broken = [_in_all_buckets(rules, place) for place in sorted({place for one in rules for place in one})]
    limit = max(question.limit, 1)
    items = list(question.before.items[:limit])
    for one in broken:
        items += islice(_merged(one), limit - len(items))
    total = question.before.total + sum(found.count for one in broken for found in one)
    if total:
        listed = Violations(items=tuple(items), total=total)
        error = ConstraintViolationError(listed.items[0].message, details=listed)
        return Verdict(error=error, problems=tuple(_files(one) for one in broken))
    for key, keys in change.types.items():
        repeated = [one.repeated[key] for one in ids if key in one.repeated]
        if repeated and keys.type.key is None:
            return _existing(keys, repeated)
    superseded = {key: _all_superseded(ids, key) for key in change.types if any(key in one.superseded for one in ids)}
    return Verdict(superseded=superseded)


def _all_superseded(ids: Sequence[IdFindings], key: str) -> Superseded:
    some = [one.superseded[key] for one in ids if key in one.superseded]
    return Superseded(files=tuple(name for one in some for name in one.files), rows=sum(one.rows for one in some))


def _in_all_buckets(rules: Sequence[RuleFindings], place: RulePlace) -> list[Found]:
    return [one[place] for one in rules if place in one]


def _merged(found: Sequence[Found]) -> Iterator[Violation]:
    for _, violation in heapq.merge(*(one.first for one in found), key=_first):
        yield violation


def _files(found: Sequence[Found]) -> tuple[str, ...]:
    return tuple(one.file for one in found if one.file is not None)


def _first(item: tuple[Order, Violation]) -> Order:
    return item[0]


def _broken(relations: RuleRelations) -> Iterator[tuple[Check, int]]:
    """Return the rules that find something, and how much."""
    engine = relations.engine
    for check in checks_of(relations):
        name = check.rule.name
        if check.proof is not None and relations.is_empty(check.proof, name):
            continue
        # Most rules find nothing and many little, which a look at the first few tells without a count.
        count = len(list(engine.rows(check.text, asks=name, limit=_FEW)))
        if count == _FEW:
            count = _count(engine, check.text, name)
        if count:
            yield check, count


def _answers(
    relations: RuleRelations, check: Check, limit: int | None, question: Question
) -> Iterator[tuple[Order, Violation]]:
    if limit is not None and not question.keeps_problems:
        limit = min(limit, max(question.limit, 1))
    for row in relations.engine.rows(check.report, asks=check.rule.name, limit=limit):
        yield check.order(row), check.describe(row)


def _noted(
    scratch: ScratchPlace, answers: Iterator[tuple[Order, Violation]], count: int, room: int, question: Question
) -> Found:
    """Return the first of some answers, and all of them in a scratch object if that is wanted."""
    if not question.keeps_problems:
        return Found(count=count, first=tuple(islice(answers, room)))
    first: list[tuple[Order, Violation]] = []

    def passing() -> Iterator[tuple[Order, Violation]]:
        for answer in answers:
            if len(first) < room:
                first.append(answer)
            yield answer

    name = _fresh_name("problems")
    scratch.write_arrow(name, _batches(passing()), schema=_PROBLEMS)
    return Found(count=count, first=tuple(first), file=name)


def _taken(relations: RuleRelations, keys: TypeKeys, question: Question) -> Found | None:
    if not keys.strict:
        return None
    ids = relations.ids(keys)
    stored = relations.engine.stored(StoredRelation(type=keys.type, wanted=bind(texts.ALL_IDS, ids=ids)))
    if stored is None:
        return None
    text = over(ID_TAKEN, {"written": ids, "stored": stored})
    if relations.is_empty(text, ID_TAKEN.name):
        return None
    return _found_ids(relations, keys, text, texts.ordered(ID_TAKEN, text), question)


def _repeated(relations: RuleRelations, keys: TypeKeys, question: Question) -> Found:
    ids = relations.ids(keys)
    text = over(ID_REPEATED, {"written": ids})
    rows = bind(texts.REPEATED, keys=ids, repeated=relations.engine.define(text))
    return _found_ids(relations, keys, text, rows, question)


def _found_ids(relations: RuleRelations, keys: TypeKeys, text: str, rows: str, question: Question) -> Found:
    """Return what a rule about ids finds; ``rows`` is the text for all rows it is about."""
    engine, places, name = relations.engine, relations.change.places, ID_TAKEN.name

    def described(found: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Order, Violation]]:
        for row, identifier in found:
            yield (row, b"", 0), describe_taken_id(keys.type, place_of(places, row, identifier))

    count = _count(engine, text, name)
    first = tuple(described(engine.rows(f"{text}\nORDER BY `row`", asks=name, limit=_SHOWN_IDS)))
    if not question.keeps_problems:
        return Found(count=count, first=first)
    every = _noted(relations.change.scratch, described(engine.rows(rows, asks=name)), count, 0, question)
    return replace(every, first=first)


def _existing(keys: TypeKeys, found: Sequence[Found]) -> Verdict:
    first = list(islice(_merged(found), _SHOWN_IDS))
    error = key_exists(keys.type.table_key, [str(one.entity_id) for one in first])
    details = error.details
    if isinstance(details, ExistingKeys):
        details = replace(details, count=sum(one.count for one in found))
    located = KeyExistsError(f"{first[0].source}:{first[0].line}: {error.message}", details=details)
    files = _files(found)
    return Verdict(error=located, problems=(files,) if files else ())


def _count(engine: RuleEngine, text: str, asks: str) -> int:
    ((count,),) = engine.rows(texts.counted(text), asks=asks, limit=1)
    return int(count)


def _fresh_name(kind: str) -> str:
    # A second attempt at a bucket, or at the whole change on a later state, writes objects of its own.
    return f"rules-{kind}/{Runtime.system().ids.ulid()}"


def _batches(answers: Iterable[tuple[Order, Violation]]) -> Iterator[pa.RecordBatch]:
    rest = iter(answers)
    while some := list(islice(rest, _BATCH)):
        told = [
            pa.array([getattr(item, at.name) for _, item in some], at.type) for at in _PROBLEMS if at.name not in _ORDER
        ]
        orders = [
            pa.array(one, _PROBLEMS.field(name).type)
            for name, one in zip(_ORDER, zip(*(o for o, _ in some), strict=True), strict=True)
        ]
        yield pa.record_batch([*told, *orders], schema=_PROBLEMS)


def _read_problems(scratch: ScratchPlace, name: str) -> Iterator[tuple[Order, Violation]]:
    for batch in scratch.read_arrow(name):
        for item in batch.to_pylist():
            row, text, rank = (item.pop(part) for part in _ORDER)
            yield (row, text, rank), Violation(**item)
