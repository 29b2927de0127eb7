"""The complete table of decisions about conflicts: every way of two sides to differ, by every decision and default."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from tests.prop.test_merge_rows import delta_of

from omnigraph.errors import MergeConflict
from omnigraph.history.merge import RESOLUTIONS, ConflictKind
from omnigraph.history.merge.conflicts import DECIDABLE
from omnigraph.history.merge.decisions import ENTITY_CHOICES, Decision, Decisions
from omnigraph.history.merge.resolution import changed_on_both, settle_rows
from omnigraph.history.merge.three_way import merge_rows

INSERT, UPDATE, DELETE = ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE
# What is no matter of a decision: the rules of the schema, and the schema itself.
RULES = {
    ConflictKind.ORPHAN_EDGE,
    ConflictKind.UNIQUE_VIOLATION,
    ConflictKind.CARDINALITY_VIOLATION,
    ConflictKind.VALUE_CONSTRAINT_VIOLATION,
    ConflictKind.SCHEMA_DIVERGENCE,
}
KEY = "node:Thing"
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("q", pa.string())])
CHOICES = (*ENTITY_CHOICES, "value")

# Whether a decision of a level can be followed for a kind of conflict whose property p is in conflict.
FOLLOWED = {
    **{(kind, "entity", choice): True for kind in (INSERT, UPDATE, DELETE) for choice in ("ours", "theirs", "base")},
    (INSERT, "entity", "properties"): False,
    (UPDATE, "entity", "properties"): True,
    (DELETE, "entity", "properties"): False,
    (INSERT, "property", "ours"): True,
    (INSERT, "property", "theirs"): True,
    (INSERT, "property", "base"): False,
    (INSERT, "property", "value"): True,
    (UPDATE, "property", "ours"): True,
    (UPDATE, "property", "theirs"): True,
    (UPDATE, "property", "base"): True,
    (UPDATE, "property", "value"): True,
    **{(DELETE, "property", choice): False for choice in ("ours", "theirs", "base", "value")},
    # These two are refused when they are read: an entity has no value, and a property is one.
    **{(kind, "entity", "value"): None for kind in (INSERT, UPDATE, DELETE)},
    **{(kind, "property", "properties"): None for kind in (INSERT, UPDATE, DELETE)},
}


def test_every_kind_of_conflict_level_and_choice_is_decided_here():
    assert set(ConflictKind) == DECIDABLE | RULES
    assert DECIDABLE.isdisjoint(RULES)
    assert set(FOLLOWED) == set(product(DECIDABLE, ("entity", "property"), CHOICES))


@pytest.mark.parametrize(("kind", "level", "choice"), [cell for cell, known in FOLLOWED.items() if known is not None])
def test_a_decision_is_followed_or_refused_as_the_table_says(kind, level, choice):
    sides = {"source": {"properties": {"p": "s"}}, "target": {"properties": {"p": "t"}}}
    conflict = MergeConflict(
        kind=kind.value,
        message="",
        type_key=KEY,
        entity_id="x",
        properties=() if kind is DELETE else ("p",),
        base=None if kind is INSERT else {"properties": {"p": "b"}},
        source=sides["source"],
        target=None if kind is DELETE else sides["target"],
    )
    name = None if level == "entity" else "p"
    decisions = Decisions([Decision(type_key=KEY, entity_id="x", name=name, choice=choice, value="v")])
    assert decisions.meet([conflict]) == FOLLOWED[kind, level, choice]


# How one property stands: what base, source and target have of it.
STANDS = {
    "same": ("b", "b", "b"),
    "ours": ("b", "b", "t"),
    "theirs": ("b", "s", "b"),
    "alike": ("b", "s", "s"),
    "clash": ("b", "s", "t"),
}


def _updates():
    """Every update of both sides that is a conflict, as rows of base, source and target."""
    for first, second in product(STANDS.values(), repeat=2):
        base, source, target = zip(first, second, strict=True)
        if source != base and target not in (base, source):
            yield base, source, target


def _inserts():
    for source, target in product(product("st", repeat=2), repeat=2):
        if source != target:
            yield None, source, target


def _deletes():
    for row in (("b", "s"), ("s", "b"), ("s", "s")):
        yield ("b", "b"), row, None
        yield ("b", "b"), None, row


STATES = {UPDATE: list(_updates()), INSERT: list(_inserts()), DELETE: list(_deletes())}


def _clashing(state):
    base, source, target = state
    if source is None or target is None:
        return ()
    old = (None, None) if base is None else base
    return tuple(
        name
        for name, was, theirs, ours in zip("pq", old, source, target, strict=True)
        if theirs != ours and (base is None or was not in (theirs, ours))
    )


def _decisions(kind, state):
    """Every combination of decisions about an entity that can be followed: for the whole, for p and for q."""
    for whole, *parts in product((None, *ENTITY_CHOICES), (None, *CHOICES), (None, *CHOICES)):
        if whole is not None and not FOLLOWED[kind, "entity", whole]:
            continue
        made = dict(zip("pq", parts, strict=True))
        used = {name: choice for name, choice in made.items() if choice is not None}
        if any(name not in _clashing(state) or not FOLLOWED[kind, "property", one] for name, one in used.items()):
            continue
        if whole is not None or used:
            yield whole, used


def _expected(state, whole, parts, rest):
    """What the row becomes, None if it goes, or the names of what stays in conflict."""
    sides = dict(zip(("base", "theirs", "ours"), state, strict=True))
    if whole in ("ours", "theirs", "base"):
        start = sides[whole]
        if start is None:
            return None
        row = dict(zip("pq", start, strict=True))
    else:
        row, still = {}, []
        for place, name in enumerate("pq"):
            ours, theirs = sides["ours"][place], sides["theirs"][place]
            if name in _clashing(state):
                row[name] = {"ours": ours, "theirs": theirs}.get(rest)
                still += [name] if row[name] is None and name not in parts else []
            else:
                row[name] = ours if sides["base"] is not None and theirs == sides["base"][place] else theirs
        if still:
            return tuple(still)
    for name, choice in parts.items():
        row[name] = "v" if choice == "value" else sides[choice]["pq".index(name)]
    return tuple(row.values())


def _cases(kind):
    return {
        f"{number}": (state, whole, parts)
        for number, (state, (whole, parts)) in enumerate(
            (state, made) for state in STATES[kind] for made in _decisions(kind, state)
        )
    }


def _side(cases, place):
    rows = {name: state[place] for name, (state, _, _) in cases.items()}
    return {name: row for name, row in rows.items() if row is not None}


def _table(rows):
    names = sorted(rows)
    columns = [names, *([rows[name][place] for name in names] for place in range(2))]
    return pa.table(columns, schema=SCHEMA)


@pytest.mark.parametrize("rest", [None, *RESOLUTIONS])
@pytest.mark.parametrize("kind", STATES)
def test_every_combination_of_decisions_gives_the_row_of_the_model(kind, rest):
    cases = _cases(kind)
    base, source, target = (_side(cases, place) for place in range(3))
    made = {
        (name, level): Decision(type_key=KEY, entity_id=name, name=level, choice=choice, value="v")
        for name, (_, whole, parts) in cases.items()
        for level, choice in ((None, whole), *parts.items())
        if choice is not None
    }
    found = merge_rows(delta_of(base, source, _table), _table(target))
    merge = settle_rows(found, Decisions(made.values()).of_type(KEY), rest)
    written = {row["id"]: (row["p"], row["q"]) for part in (merge.inserts, merge.updates) for row in part.to_pylist()}
    deleted = set(merge.deletes.to_pylist())
    still = {
        name: names
        for item in merge.conflicts
        for name, names in zip(item.ids.to_pylist(), changed_on_both(item), strict=True)
    }
    outcomes = {
        name: still[name] if name in still else None if name in deleted else written.get(name, target.get(name))
        for name in cases
    }
    assert outcomes == {name: _expected(state, whole, parts, rest) for name, (state, whole, parts) in cases.items()}
    # What the target has already is not written, and what it lacks is not removed.
    assert deleted <= target.keys()
    assert all(target.get(name) != row for name, row in written.items())
    assert merge.inserts.num_rows == sum(name not in target for name in written)
