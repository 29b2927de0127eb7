"""Every object-store call of an operation fails once in turn, until the operation passes untouched.

Whatever happens, the graph has changed completely or not at all, the error is one of ours, what it says about its
effect is true for ever, and the next write succeeds.
"""

from __future__ import annotations

import pytest

from omnigraph.errors import BranchMissingError
from omnigraph.runtime import Runtime
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.crash.checks import assert_sound
from tests.crash.later import Torn, later_world, tear_at
from tests.crash.matrix import IS_FULL
from tests.crash.nth_call import (
    DROP_AFTER,
    DROP_BEFORE,
    ERROR_AFTER,
    ERROR_BEFORE,
    LOST_ANSWERS,
    OUTAGE,
    Loop,
    assert_effect_is_true,
    assert_heads_are_pins,
    every_loop,
    fail_call,
)
from tests.crash.torn import IMPATIENT
from tests.marks import first
from tests.txn_graph import (
    KNOWS,
    PERSON,
    TEAM,
    authority_of,
    edge_rows,
    init_graph,
    insert,
    node_rows,
    open_graph,
    read_ids,
)

pytestmark = pytest.mark.more

_MOST_CALLS = 120


class Insert:
    """One row into one table."""

    branch = MAIN
    keys = (PERSON,)
    fewest_calls = 10

    def prepare(self, storage, mark):
        """Bring the graph into the state that the operation starts from."""

    def run(self, graph, mark):
        branch_writer = authority_of(graph, self.branch)
        txn = branch_writer.begin(WriteKind.INSERT)
        for key in self.keys:
            rows = edge_rows([(mark, "a", "a")]) if key == KNOWS else node_rows([mark])
            txn.insert(key, rows)
        branch_writer.commit(txn)

    def branch_of(self, mark):
        return self.branch


class ThreeTables(Insert):
    """One commit over three tables."""

    keys = (PERSON, TEAM, KNOWS)


class FirstWriteOnBranch(Insert):
    """A write that forks two tables, upon a branch made for it."""

    keys = (PERSON, TEAM)

    def branch_of(self, mark):
        return f"b-{mark}"

    def prepare(self, storage, mark):
        with open_graph(storage) as graph:
            graph.create_branch(BranchName(self.branch_of(mark)))

    def run(self, graph, mark):
        branch_writer = authority_of(graph, self.branch_of(mark))
        txn = branch_writer.begin(WriteKind.INSERT)
        for key in self.keys:
            txn.insert(key, node_rows([mark]))
        branch_writer.commit(txn)


class CreateBranch(Insert):
    """A branch and nothing on it."""

    keys = ()

    def branch_of(self, mark):
        return f"b-{mark}"

    def run(self, graph, mark):
        graph.create_branch(BranchName(self.branch_of(mark)))


class Recovery(ThreeTables):
    """The end of a write whose writer is gone: finished or undone, by whoever opens the graph."""

    def __init__(self, point, nth=1):
        self._point = point
        self._nth = nth

    def prepare(self, storage, mark):
        runtime = tear_at(Runtime.system({}), self._point, self._nth)
        with open_graph(storage, runtime=runtime) as graph, pytest.raises(Torn):
            super().run(graph, mark)

    def run(self, graph, mark):
        graph.refresh()


OPERATIONS = {
    "insert": Insert(),
    "three_tables": ThreeTables(),
    "first_write_on_branch": FirstWriteOnBranch(),
    "create_branch": CreateBranch(),
    "roll_forward": Recovery("txn.commit.after_tables"),
    "roll_back": Recovery("txn.commit.before_table", 3),
}


PLAIN = [
    Loop(operation="insert", trouble=ERROR_AFTER, goes_on=True, step=5),
    Loop(operation="insert", trouble=OUTAGE, goes_on=True, step=13),
    Loop(operation="insert", trouble=LOST_ANSWERS, goes_on=False, step=12),
    Loop(operation="three_tables", trouble=DROP_AFTER, goes_on=False, step=12),
    Loop(operation="first_write_on_branch", trouble=OUTAGE, goes_on=True, step=29),
    Loop(operation="create_branch", trouble=DROP_BEFORE, goes_on=False, step=5),
    Loop(operation="roll_back", trouble=ERROR_BEFORE, goes_on=False, step=16),
    Loop(operation="roll_forward", trouble=LOST_ANSWERS, goes_on=True, step=27),
]


@pytest.mark.parametrize(
    "loop", first(4, [pytest.param(loop, id=loop.name) for loop in (every_loop(OPERATIONS) if IS_FULL else PLAIN)])
)
@pytest.mark.timeout(900)
def test_no_failing_call_breaks_the_graph_or_makes_an_error_lie(loop, clean_s3_endpoint):
    endpoint, operation, trouble = clean_s3_endpoint, OPERATIONS[loop.operation], loop.trouble
    for nth in range(1, _MOST_CALLS, loop.step):
        mark = f"{trouble.name}{nth:03}"
        # A graph of its own for each turn: history makes lookups read more, and the calls that matter would recede.
        storage = init_graph(endpoint.fresh_prefix(), endpoint.storage_options_without_retries)
        with open_graph(storage) as graph:
            insert(graph, PERSON, node_rows(["a"]))
        operation.prepare(storage, mark)
        was_hit = _fail_call(endpoint, storage, operation, trouble, nth, mark, goes_on=loop.goes_on)
        if IS_FULL or not was_hit or nth == 1:
            assert_sound(storage)
        if not was_hit:
            break
    else:
        pytest.fail("the operation never passed untouched")
    assert nth > operation.fewest_calls


def _fail_call(endpoint, storage, operation, trouble, nth, mark, *, goes_on):
    """Fail one call, look, let the graph settle, look again; return whether the call came at all."""
    branch = operation.branch_of(mark)
    is_recovery = isinstance(operation, Recovery)
    runtime = later_world() if is_recovery else None
    mode = "read_only" if is_recovery else "read_write"
    graph = open_graph(storage, settings=IMPATIENT, runtime=runtime, mode=mode)
    graph._mode = "read_write"
    try:
        if is_recovery:
            # Looked at once before, so that the claim was silent for hours when the recovery looks again.
            claims = authority_of(graph).services.claims
            for version in claims.pending_versions():
                claims.describe(claims.read(version))
            runtime.clock.let_hours_pass()
        elif not isinstance(operation, CreateBranch):
            graph.snapshot(BranchName(branch))
        fault = trouble.on_call(nth, storage.prefix)
        error, was_hit = fail_call(endpoint, fault, graph, lambda: operation.run(graph, mark))
        seen = _look(storage, operation, mark)
        if not is_recovery:
            assert_effect_is_true(error, seen)
        if goes_on:
            insert(graph, TEAM, node_rows([f"next-{mark}"]))
    finally:
        endpoint.clear_faults()
        graph.close()
    assert was_hit or error is None, f"failed without a fault: {error!r}"
    _assert_settles(storage, operation, mark, error, seen)
    return was_hit


def _assert_settles(storage, operation, mark, error, seen):
    with open_graph(storage, runtime=later_world(hours=2), settings=IMPATIENT) as graph:
        final = _look(storage, operation, mark)
        if not isinstance(operation, Recovery):
            assert_effect_is_true(error, final)
        assert final or not seen, "a visible change has gone"
        assert graph._stores.control.list_keys("__recovery") == ()
        assert_heads_are_pins(graph)
        branch = operation.branch_of(mark)
        if branch != MAIN and branch not in graph.branch_names():
            graph.create_branch(BranchName(branch))
        insert(graph, PERSON, node_rows([f"after-{mark}"]), branch=branch)
        insert(graph, TEAM, node_rows([f"after-{mark}"]))


def _look(storage, operation, mark):
    """Whether the change is there; half of it is a failure by itself."""
    branch = operation.branch_of(mark)
    with open_graph(storage, mode="read_only") as graph:
        try:
            graph.snapshot(BranchName(branch))
        except BranchMissingError:
            return False
        found = {mark in read_ids(graph, key, branch) for key in operation.keys} or {True}
    assert len(found) == 1, "half of the change is there"
    return found.pop()
