"""What a write was decided on: which newer states it may go on upon, and which writes it may share a publish with."""

from __future__ import annotations

import pytest
from tests.txn_graph import KNOWS, PERSON, TEAM, authority_of, edge_rows, init_graph, node_rows, open_graph, read_ids

from omnigraph.errors import ExpectedVersionMismatchError, TypeMissingError
from omnigraph.txn.changes import RowChange
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.reads import MOST_ROWS


@pytest.fixture
def graph(tmp_path):
    with open_graph(init_graph(tmp_path / "g")) as graph:
        commit(graph, lambda txn: txn.insert(PERSON, node_rows(["ann", "bo"])))
        commit(graph, lambda txn: txn.insert(KNOWS, edge_rows([("k", "ann", "bo")])))
        yield graph


def begin(graph, kind=WriteKind.MUTATE, **options):
    return authority_of(graph).begin(kind, **options)


def commit(graph, fill, kind=WriteKind.INSERT):
    txn = begin(graph, kind)
    fill(txn)
    authority_of(graph).commit(txn)


def update(graph, name, **options):
    """A write that was decided on one row, which it replaces."""
    txn = begin(graph, **options)
    txn.read_rows(PERSON, [name])
    txn.upsert(PERSON, node_rows([name], 5))
    return txn


@pytest.mark.parametrize(
    "between",
    [
        lambda txn: txn.upsert(PERSON, node_rows(["bo"], 9)),
        lambda txn: txn.delete(PERSON, ["bo"]),
        lambda txn: txn.insert(PERSON, node_rows(["cy"])),
    ],
)
def test_what_others_write_beside_the_rows_is_no_conflict(graph, between):
    txn = update(graph, "ann")
    commit(graph, between)
    authority_of(graph).commit(txn)
    assert txn.reruns == 0
    assert authority_of(graph).snapshot().table(PERSON).lookup(["ann"], ["value"])["value"].to_pylist() == [5]


@pytest.mark.parametrize(
    "between",
    [
        lambda txn: txn.upsert(PERSON, node_rows(["ann"], 9)),
        lambda txn: txn.delete(PERSON, ["ann"]),
        lambda txn: txn.replace_all(PERSON, node_rows(["ann"])),
    ],
)
def test_what_others_make_of_the_rows_is_a_conflict(graph, between):
    txn = update(graph, "ann")
    commit(graph, between)
    with pytest.raises(ExpectedVersionMismatchError, match=PERSON):
        authority_of(graph).commit(txn)


def test_a_row_that_was_not_there_must_not_have_come(graph):
    txn = begin(graph)
    txn.read_rows(PERSON, ["cy"])
    txn.upsert(TEAM, node_rows(["t"]))
    txn.read_rows(TEAM, ())
    commit(graph, lambda other: other.insert(TEAM, node_rows(["u"])))
    commit(graph, lambda other: other.insert(PERSON, node_rows(["cy"])))
    with pytest.raises(ExpectedVersionMismatchError, match=PERSON):
        authority_of(graph).commit(txn)


@pytest.mark.parametrize(("edge", "is_met"), [(("n", "bo", "ann"), True), (("n", "bo", "cy"), False)])
def test_an_edge_that_came_to_a_node_is_a_conflict(graph, edge, is_met):
    txn = begin(graph)
    txn.read_rows(PERSON, ["ann"])
    txn.read_rows(KNOWS, ["k"])
    txn.read_ends(KNOWS, [("ann", None), (None, "ann")])
    txn.delete(PERSON, ["ann"])
    txn.delete(KNOWS, ["k"])
    commit(graph, lambda other: other.insert(KNOWS, edge_rows([edge])))
    if is_met:
        with pytest.raises(ExpectedVersionMismatchError, match=KNOWS):
            authority_of(graph).commit(txn)
    else:
        authority_of(graph).commit(txn)
        assert read_ids(graph, KNOWS) == ["n"]


def test_a_table_that_was_read_as_a_whole_is_not_told_by_rows(graph):
    for first, second in ((0, 1), (1, 0)):
        txn = begin(graph)
        tell = [lambda txn=txn: txn.read_rows(PERSON, ["ann"]), lambda txn=txn: txn.read_table(PERSON)]
        tell[first]()
        tell[second]()
        txn.upsert(PERSON, node_rows(["ann"], 5))
        assert (txn.read_set, txn.rows_read) == ({PERSON}, {})
        commit(graph, lambda other, first=first: other.insert(PERSON, node_rows([f"new{first}"])))
        with pytest.raises(ExpectedVersionMismatchError):
            authority_of(graph).commit(txn)


def test_very_many_rows_are_the_table(graph):
    txn = begin(graph)
    txn.read_rows(PERSON, map(str, range(MOST_ROWS)))
    assert (len(txn.rows_read[PERSON]), txn.read_set) == (MOST_ROWS, frozenset())
    txn.read_rows(PERSON, ["one more"])
    assert (txn.rows_read, txn.read_set) == ({}, {PERSON})


def test_a_table_that_nobody_told_rows_of_counts_as_a_whole(graph):
    txn = begin(graph)
    txn.upsert(PERSON, node_rows(["ann"], 5))
    assert not txn.can_group
    commit(graph, lambda other: other.insert(PERSON, node_rows(["cy"])))
    with pytest.raises(ExpectedVersionMismatchError):
        authority_of(graph).commit(txn)


def test_rows_of_a_type_that_is_not_there_cannot_be_read(graph):
    with pytest.raises(TypeMissingError):
        begin(graph).read_rows("node:Nothing", ["x"])


def test_running_again_forgets_what_the_run_before_was_decided_on(graph):
    txn = update(graph, "ann")
    txn.read_ends(KNOWS, [("ann", None)])
    txn.decide = lambda again: again.read_rows(PERSON, ["bo"])
    assert txn.run_again(txn.snapshot)
    assert (txn.rows_read, txn.ends_read) == ({PERSON: {"bo"}}, {})


def test_a_write_that_was_decided_on_rows_may_share_a_publish(graph):
    assert update(graph, "ann").can_group
    whole = update(graph, "ann")
    whole.read_table(KNOWS)
    assert not whole.can_group
    replacing = begin(graph)
    replacing.read_rows(PERSON, ())
    replacing.replace_all(PERSON, node_rows(["x"]))
    assert not replacing.can_group
    assert not update(graph, "ann", expected_head=authority_of(graph).snapshot().state.head.commit).can_group
    assert not begin(graph).can_group
    assert not update(graph, "ann", kind=WriteKind.OPTIMIZE).can_group


def test_a_write_depends_on_changes_of_rows_that_it_was_decided_on(graph):
    txn = update(graph, "ann")
    txn.read_ends(KNOWS, [("ann", None), (None, "ann"), ("x", "y")])
    txn.read_rows(KNOWS, ["k"])
    txn.read_table(TEAM)
    for change, expected in (
        (RowChange(table_key=PERSON, upserts=node_rows(["ann"])), True),
        (RowChange(table_key=PERSON, inserts=node_rows(["bo", "ann"])), True),
        (RowChange(table_key=PERSON, deletes=("ann",)), True),
        (RowChange(table_key=PERSON, upserts=node_rows(["bo"]), deletes=("cy",)), False),
        (RowChange(table_key=KNOWS, inserts=edge_rows([("n", "bo", "cy")])), False),
        (RowChange(table_key=KNOWS, inserts=edge_rows([("n", "ann", "cy")])), True),
        (RowChange(table_key=KNOWS, upserts=edge_rows([("n", "bo", "ann")])), True),
        (RowChange(table_key=KNOWS, inserts=edge_rows([("n", "x", "y")])), True),
        (RowChange(table_key=KNOWS, inserts=edge_rows([("n", "x", "z")])), False),
        (RowChange(table_key=KNOWS, deletes=("k",)), True),
        (RowChange(table_key=KNOWS, deletes=("other",)), False),
        (RowChange(table_key=TEAM, inserts=node_rows(["t"])), True),
        (RowChange(table_key="node:Other", inserts=node_rows(["ann"])), False),
    ):
        assert txn.depends_on(change) is expected, change


def test_an_insert_depends_on_nothing(graph):
    txn = begin(graph, WriteKind.INSERT)
    txn.insert(PERSON, node_rows(["cy"]))
    txn.read_rows(PERSON, ["cy"])
    assert txn.can_group
    assert not txn.depends_on(RowChange(table_key=PERSON, upserts=node_rows(["cy"])))
