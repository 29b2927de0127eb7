"""The decision per row agrees with a model of dictionaries, for any three states of a table."""

from __future__ import annotations

import os

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.history.diff.rows import TableDelta
from omnigraph.history.merge.resolution import resolve_rows
from omnigraph.history.merge.three_way import adopt, merge_rows
from tests.prop.model_merge import combine_values, merge_values, take_source

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

_SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string()), ("items", pa.list_(pa.string())), ("near", pa.list_(pa.float32(), 2))]
)
_values = st.tuples(
    st.sampled_from([None, "", "a"]),
    st.sampled_from([None, (), ("a",), ("a", "b"), ("a, b",), (None,)]),
    st.sampled_from([None, (0.0, 1.0), (-0.5, 1.0)]),
)
_states = st.dictionaries(st.sampled_from(["a", "b'", "c", "dé", "e"]), _values)


def _table(rows):
    columns = {
        "id": list(rows),
        "text": [row[0] for row in rows.values()],
        "items": [None if row[1] is None else list(row[1]) for row in rows.values()],
        "near": [None if row[2] is None else list(row[2]) for row in rows.values()],
    }
    return pa.table(columns, schema=_SCHEMA)


def _state(rows):
    found = {}
    for row in rows.to_pylist():
        items, near = row["items"], row["near"]
        found[row["id"]] = row["text"], None if items is None else tuple(items), None if near is None else tuple(near)
    return found


def _only(state, ids):
    return {entity_id: state[entity_id] for entity_id in sorted(ids, key=str.encode)}


def _delta(before, after):
    return delta_of(before, after, _table)


def delta_of(before, after, table):
    """The difference between two states, rows by id, as tables."""
    changed = [entity_id for entity_id in before.keys() & after.keys() if before[entity_id] != after[entity_id]]
    return TableDelta(
        inserted=table(_only(after, after.keys() - before.keys())),
        deleted=table(_only(before, before.keys() - after.keys())),
        before=table(_only(before, changed)),
        after=table(_only(after, changed)),
    )


def _apply(target, merge):
    """Return the target after the merge; what it says about the target's rows must be true."""
    inserts, updates, deletes = _state(merge.inserts), _state(merge.updates), merge.deletes.to_pylist()
    assert not inserts.keys() & target.keys()
    assert updates.keys() <= target.keys()
    assert set(deletes) <= target.keys()
    assert all(target[entity_id] != row for entity_id, row in updates.items())
    kept = {entity_id: row for entity_id, row in target.items() if entity_id not in deletes}
    return kept | inserts | updates


def _conflicts(merge):
    return {entity_id: item.kind.value for item in merge.conflicts for entity_id in item.ids.to_pylist()}


@given(base=_states, source=_states, target=_states)
@settings(max_examples=200 if LONG else 60, deadline=None)
def test_a_merge_of_rows_equals_the_model(base, source, target):
    merge = merge_rows(_delta(base, source), _table(target))
    merged, conflicts = merge_values(base, source, target)
    assert _conflicts(merge) == conflicts
    assert _apply(target, merge) == merged


@given(base=_states, source=_states, target=_states)
@settings(max_examples=200 if LONG else 60, deadline=None)
def test_every_resolution_equals_the_model(base, source, target):
    merge = merge_rows(_delta(base, source), _table(target))
    merged, conflicts = merge_values(base, source, target)
    assert _apply(target, resolve_rows(merge, "ours")) == merged
    assert _apply(target, resolve_rows(merge, "theirs")) == take_source(merged, source, conflicts)
    combined = combine_values(base, source, target, conflicts)
    resolved = resolve_rows(merge, "properties")
    assert _conflicts(resolved) == {key: kind for key, kind in conflicts.items() if key not in combined}
    assert _apply(target, resolved) == merged | combined


@given(base=_states, source=_states, target=_states)
@settings(max_examples=100 if LONG else 30, deadline=None)
def test_conflicts_are_the_same_in_both_directions(base, source, target):
    there = merge_rows(_delta(base, source), _table(target))
    back = merge_rows(_delta(base, target), _table(source))
    assert _conflicts(there) == _conflicts(back)
    if not there.conflicts:
        assert _apply(target, there) == _apply(source, back)


@given(base=_states, source=_states)
@settings(max_examples=100 if LONG else 30, deadline=None)
def test_a_table_that_the_target_left_alone_becomes_what_the_source_has(base, source):
    delta = _delta(base, source)
    assert _apply(base, adopt(delta)) == _apply(base, merge_rows(delta, _table(base))) == source
