"""Every operation on one side against every operation on the other: outcome, conflicts and content."""

from __future__ import annotations

from enum import Enum
from itertools import product

import pytest
from tests.merge_graph import DRAFT, Template, change, contents, head_of, history_of, kinds_of

from omnigraph.errors import MergeConflictsError
from omnigraph.history.merge import merge_branch, preview_merge
from omnigraph.values import MAIN

pytestmark = pytest.mark.more

SET_AGE = 'update Person set { age: AGE } where name = "Alice"'
ADD_EDGE = 'insert Knows { from: "Alice", to: "Carol" }'


class Operation(Enum):
    NOOP = "noop"
    ADD_NODE = "addNode"
    REMOVE_NODE = "removeNode"
    ADD_EDGE = "addEdge"
    REMOVE_EDGE = "removeEdge"
    SET = "set"
    NET_ZERO = "netZero"


UP_TO_DATE, FAST, MERGED = "already_up_to_date", "fast_forward", "merged"
INSERT, UPDATE, DELETE, ORPHAN = "divergent_insert", "divergent_update", "delete_vs_update", "orphan_edge"

# Rows: done on the source. Columns, in the order of the enumeration: done on the target.
EXPECTED = {
    Operation.NOOP: (UP_TO_DATE,) * 7,
    Operation.ADD_NODE: (FAST, INSERT, MERGED, MERGED, MERGED, MERGED, MERGED),
    Operation.REMOVE_NODE: (FAST, MERGED, MERGED, ORPHAN, MERGED, DELETE, MERGED),
    Operation.ADD_EDGE: (FAST, MERGED, ORPHAN, MERGED, MERGED, MERGED, MERGED),
    Operation.REMOVE_EDGE: (FAST, MERGED, MERGED, MERGED, MERGED, MERGED, MERGED),
    Operation.SET: (FAST, MERGED, DELETE, MERGED, MERGED, UPDATE, MERGED),
    Operation.NET_ZERO: (FAST, MERGED, MERGED, MERGED, MERGED, MERGED, MERGED),
}
CELLS = {
    (source, target): EXPECTED[source][place] for source, (place, target) in product(Operation, enumerate(Operation))
}
# An operation without a decided row and column must not go unnoticed.
assert set(EXPECTED) == set(Operation)
assert {len(row) for row in EXPECTED.values()} == {len(Operation)}
OUTCOMES = {UP_TO_DATE, FAST, MERGED}
ENTITY = {INSERT: ("node:Person", "Eve"), UPDATE: ("node:Person", "Alice"), DELETE: ("node:Person", "Alice")}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("matrix"))


def _do(session, operation, branch, age):
    match operation:
        case Operation.NOOP:
            return
        case Operation.ADD_NODE:
            change(session, f'insert Person {{ name: "Eve", age: {age} }}', branch)
        case Operation.REMOVE_NODE:
            change(session, 'delete Person where name = "Alice"', branch)
        case Operation.ADD_EDGE:
            change(session, ADD_EDGE, branch)
        case Operation.REMOVE_EDGE:
            change(session, 'delete Knows where from = "Bob"', branch)
        case Operation.SET:
            change(session, SET_AGE.replace("AGE", str(age)), branch)
        case Operation.NET_ZERO:
            change(session, ADD_EDGE, branch)
            change(session, 'delete Knows where from = "Alice"', branch)


def _model(graph, operation, age):
    """What an operation does to the contents of a graph, written down a second time."""
    people = {name: dict(row) for name, row in graph["node:Person"].items()}
    knows = list(graph["edge:Knows"])
    match operation:
        case Operation.ADD_NODE:
            people["Eve"] = {"name": "Eve", "age": age}
        case Operation.REMOVE_NODE:
            people.pop("Alice", None)
        case Operation.ADD_EDGE:
            knows.append(repr({"src": "Alice", "dst": "Carol"}))
        case Operation.REMOVE_EDGE:
            knows = [edge for edge in knows if edge != repr({"src": "Bob", "dst": "Carol"})]
        case Operation.SET:
            people["Alice"]["age"] = age
        case _:
            pass
    return {"node:Person": people, "edge:Knows": sorted(knows)}


@pytest.mark.parametrize(
    ("source", "target"), [pytest.param(*cell, id=f"{cell[0].value}-{cell[1].value}") for cell in CELLS]
)
@pytest.mark.parametrize("branches", [(DRAFT, MAIN), (MAIN, DRAFT)], ids=["into-main", "into-branch"])
def test_a_cell_of_the_matrix_comes_out_as_decided(template, source, target, branches):
    expected = CELLS[source, target]
    theirs, ours = branches
    with template.open() as session:
        seed = contents(session)
        _do(session, source, theirs, 40)
        _do(session, target, ours, 50)
        before, head, source_head = contents(session, ours), head_of(session, ours), head_of(session, theirs)
        assert before == _model(seed, target, 50)
        preview = preview_merge(session, theirs, ours)
        assert head_of(session, ours) == head
        if expected in OUTCOMES:
            _assert_merges(session, branches, expected, head, source_head)
            assert contents(session, ours) == _model(before, source, 40)
            assert (preview.outcome.value, preview.conflicts) == (expected, ())
            assert merge_branch(session, theirs, ours).commit is None
        else:
            with pytest.raises(MergeConflictsError) as refused:
                merge_branch(session, theirs, ours)
            conflicts = refused.value.details.items
            assert [conflict.kind for conflict in conflicts] == [expected]
            assert kinds_of(conflicts)[0][1:] == ENTITY.get(expected, (conflicts[0].type_key, conflicts[0].entity_id))
            assert preview.conflicts == conflicts
            assert (contents(session, ours), head_of(session, ours)) == (before, head)
        assert head_of(session, theirs) == source_head


def _assert_merges(session, branches, expected, head, source_head):
    theirs, ours = branches
    version = session.snapshot(ours).state.version
    result = merge_branch(session, theirs, ours, actor="merger")
    assert result.outcome.value == expected
    if expected == UP_TO_DATE:
        assert result.commit is None
        assert session.snapshot(ours).state.version == version
        return
    newest = history_of(session, ours)[0]
    assert newest == result.commit
    assert (newest.parent, newest.merged_parent, newest.actor) == (head, source_head, "merger")
    assert newest.operation == "branch_merge"
    assert newest.manifest_version == version + 1
