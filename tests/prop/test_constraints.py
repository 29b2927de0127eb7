"""The evaluator against the oracle, over small random graphs and changes."""

import os
import re
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.engine.constraints import evaluation, evaluator, find_violations
from tests.constraint_graph import EVERY_TEXT, catalog_of, change_of, part, view_of
from tests.constraint_oracle import expected_messages

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

CATALOG = catalog_of("""
node A {
    k: String @key
    u: I32? @unique
    n: I32?
    t: String?
    s: enum(x, y)?
    @range(n, 0..2)
    @check(t, "^[ab]+$")
    @unique(n, t)
}
node B {
    w: F64? @unique
    r: I32
}
edge E: A -> A @card(1..2) { p: enum(x, y)?  @unique(src, dst) }
edge F: A -> B @card(0..1) { @unique(dst) }
edge K: B -> A { @key(src, dst) }
""")
KEYS = st.sampled_from(["a1", "a2", "a3", "a4"])
B_IDS = st.sampled_from(["b1", "b2", "b3"])
EDGE_IDS = st.sampled_from(["e1", "e2", "e3", "e4", "e5"])
SMALL = st.none() | st.integers(-1, 3)

A_ROWS = st.builds(
    lambda k, u, n, t, s: {"id": k, "k": k, "u": u, "n": n, "t": t, "s": s},
    KEYS,
    SMALL,
    SMALL,
    st.none() | st.sampled_from(["a", "ab", "c"]),
    st.none() | st.sampled_from(["x", "y", "z"]),
)
B_ROWS = st.builds(
    lambda key, w, r: {"id": key, "w": w, "r": r},
    B_IDS,
    st.none() | st.sampled_from([0.0, -0.0, 1.5]),
    st.none() | st.just(1) | st.just(2),
)
E_ROWS = st.builds(
    lambda key, src, dst, p: {"id": key, "src": src, "dst": dst, "p": p},
    EDGE_IDS,
    KEYS,
    KEYS,
    st.none() | st.sampled_from(["x", "z"]),
)
F_ROWS = st.builds(lambda key, src, dst: {"id": key, "src": src, "dst": dst}, EDGE_IDS, KEYS, B_IDS)
K_ROWS = st.builds(lambda src, dst: {"id": f'["{src}","{dst}"]', "src": src, "dst": dst}, B_IDS, KEYS)
ROWS = {"A": A_ROWS, "B": B_ROWS, "E": E_ROWS, "F": F_ROWS, "K": K_ROWS}
IDS = {"A": KEYS, "B": B_IDS, "E": EDGE_IDS, "F": EDGE_IDS, "K": st.sampled_from(['["b1","a1"]', '["b2","a1"]'])}


def _by_id(row):
    return row["id"]


def _whole(stored):
    """Without edges that join nothing or are too many: what a graph broke before is not the change's doing."""
    nodes = {name: {row["id"] for row in stored[name]} for name in ("A", "B")}
    ends = {edge.name: (nodes[edge.from_type], nodes[edge.to_type]) for edge in CATALOG.edges.values()}
    kept = {
        name: [row for row in stored[name] if row["src"] in sources and row["dst"] in targets]
        for name, (sources, targets) in ends.items()
    }
    for name, rows in kept.items():
        most = CATALOG.edges[name].cardinality.maximum or len(rows)
        kept[name] = [row for at, row in enumerate(rows) if [r["src"] for r in rows[:at]].count(row["src"]) < most]
    return {**stored, **kept}


STORED = st.fixed_dictionaries({name: st.lists(rows, max_size=4, unique_by=_by_id) for name, rows in ROWS.items()}).map(
    _whole
)


@st.composite
def type_changes(draw, name):
    rows = draw(
        st.lists(ROWS[name], max_size=4) if draw(st.booleans()) else st.lists(ROWS[name], max_size=4, unique_by=_by_id)
    )
    written = {row["id"] for row in rows}
    replaces_all = bool(rows) and draw(st.integers(0, 4)) == 0
    deletes = () if replaces_all else tuple(sorted(draw(st.sets(IDS[name], max_size=2)) - written))
    return rows, deletes, replaces_all


@st.composite
def changes(draw):
    names = draw(st.sets(st.sampled_from(sorted(ROWS)), min_size=1))
    drawn = {name: draw(type_changes(name)) for name in sorted(names)}
    return {name: found for name, found in drawn.items() if found[0] or found[1]}


@given(stored=STORED, change=changes())
@settings(max_examples=400 if LONG else 40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_evaluator_finds_what_the_rules_say_in_the_order_they_say_it(stored, change):
    parts = [
        part(CATALOG, name, rows, deletes=deletes, replaces_all=replaces_all)
        for name, (rows, deletes, replaces_all) in change.items()
    ]
    violations = find_violations(change_of(*parts), view_of(CATALOG, stored), 1000)
    assert [item.message for item in violations.items] == expected_messages(CATALOG, stored, change)
    assert violations.total == len(violations.items)


@given(stored=STORED, change=changes())
@settings(max_examples=60 if LONG else 15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_texts_find_the_same_when_nothing_is_proven_beforehand(stored, change):
    parts = [
        part(CATALOG, name, rows, deletes=deletes, replaces_all=replaces_all)
        for name, (rows, deletes, replaces_all) in change.items()
    ]
    every = find_violations(change_of(*parts), view_of(CATALOG, stored), 1000, settings=EVERY_TEXT)
    assert [item.message for item in every.items] == expected_messages(CATALOG, stored, change)
    assert all(re.match(r"[@a-z]", item.message) for item in every.items)


@given(stored=STORED, change=changes())
@settings(max_examples=60 if LONG else 15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rows_that_are_judged_one_at_a_time_break_the_same_rules_in_the_same_order(stored, change):
    parts = [
        part(CATALOG, name, rows, deletes=deletes, replaces_all=replaces_all)
        for name, (rows, deletes, replaces_all) in change.items()
    ]
    with patch.object(evaluation, "SLICE_ROWS", 1), patch.object(evaluator, "SLICE_ROWS", 1):
        every = find_violations(change_of(*parts), view_of(CATALOG, stored), 1000)
    assert [item.message for item in every.items] == expected_messages(CATALOG, stored, change)
