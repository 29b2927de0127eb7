"""Merged branches in the lineage: neither a publish nor an open knows how many there were."""

import os
from types import SimpleNamespace

import pytest

from omnigraph.engine.maintenance.retention import Retention, decide_kept, read_histories
from omnigraph.history.merge.lineage import relate
from omnigraph.runtime import counting
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.txn.manifest.merged import MergedCommit, MergeRecords, record_of
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.refs import LogFilter
from omnigraph.values import MAIN, BranchName, CommitId
from tests.cost.test_branches import deletion, ready_branch
from tests.txn_graph import PERSON, authority_of, init_graph, insert, join, node_rows, open_graph

MERGED = 1000 if os.environ.get("OMNIGRAPH_COST") == "deep" else 60
WRITES = 34
PAGE = 20
# Lance reads the version that it ends, and writes another; nothing of a fork is touched.
RETIRE_CALLS = 18
ROOT = BranchName(MAIN)


def add_merge(driver, number):
    """A merge of a branch that is gone: its commit and its record, without the cost of having had the branch."""
    ids, graph = driver.graph.stores.runtime.ids, driver.graph
    line = BranchIncarnation(name=BranchName(f"gone-{number}"), incarnation="0", lance_branch=f"gone-{number}.0")
    head, forked = CommitId(ids.ulid()), graph.snapshot(ROOT).state.head.commit
    commits = [_commit(head, forked, line.name), _commit(CommitId(ids.ulid()), forked, line.name)]
    txn = driver.main.begin(WriteKind.BRANCH_MERGE, merged_parent=head)
    record = record_of([MergedCommit(commit=commit, line=line) for commit in commits], ())
    txn.add_check(lambda view: graph.merges.add(txn.commit_id, view.snapshot.state.version + 1, record))
    driver.main.commit(txn)


def add_plain(driver, _):
    """A commit that is as long as that of a merge."""
    txn = driver.main.begin(WriteKind.LOAD_MERGE, message=str(driver.graph.stores.runtime.ids.ulid()))
    txn.is_recorded = True
    driver.main.commit(txn)


def _commit(commit_id, parent, branch):
    return Commit(
        id=commit_id,
        parent=parent,
        actor="ann",
        created_at_ms=1,
        manifest_version=1,
        operation="mutate",
        branch=branch,
        merged_parent=None,
        message=None,
        published_at_ms=1,
        touched=("node:Person",),
    )


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two graphs with the same number of commits: merges in one, writes in the other.

    They are on a local disk, which is quicker; the calls counted are those that an object store would serve.
    """
    made = []
    for add in (add_merge, add_plain):
        graph = open_graph(init_graph(str(tmp_path_factory.mktemp("twin") / "graph")))
        driver = SimpleNamespace(graph=graph, main=authority_of(graph), storage=graph.storage)
        insert(graph, PERSON, node_rows(["seed"]))
        for number in range(MERGED):
            add(driver, number)
        # Closing ends what goes on beside the writer, such as clearing the last sidecar, which an open would look at.
        graph.close()
        graph = open_graph(driver.storage)
        made.append(SimpleNamespace(graph=graph, main=authority_of(graph), storage=graph.storage))
    yield made
    for driver in made:
        driver.graph.close()


@pytest.fixture
def no_records(monkeypatch):
    """Refuse every look at what merges brought."""

    def refuse(*_):
        pytest.fail("a record of a merge was read")

    monkeypatch.setattr(MergeRecords, "read", refuse)


def _cost(run):
    with counting() as counters:
        run()
    return counters.cost()


def _assert_alike(merged, plain):
    assert [cost.calls for cost in merged] == [cost.calls for cost in plain]
    assert [cost.serial_stages for cost in merged] == [cost.serial_stages for cost in plain]
    for kind in ("bytes_read", "bytes_written"):
        together = [sum(getattr(cost, kind) for cost in costs) for costs in (merged, plain)]
        assert together[0] <= together[1] * 1.02


def _write(driver, number):
    return insert(driver.graph, PERSON, node_rows([f"new-{number}"])).cost


@pytest.mark.usefixtures("no_records")
def test_a_publish_costs_the_same_however_many_branches_were_merged(twins):
    _assert_alike(*([_write(driver, number) for number in range(WRITES)] for driver in twins))


@pytest.mark.usefixtures("no_records")
@pytest.mark.parametrize("mode", ["read_write", "read_only"])
def test_an_open_costs_the_same_however_many_branches_were_merged(twins, mode):
    def open_it(driver):
        return _cost(lambda: open_graph(driver.storage, mode=mode).close())

    _assert_alike(*([open_it(driver)] for driver in twins))


def test_a_page_of_the_full_log_reads_the_records_of_its_own_merges_alone(twins, monkeypatch):
    read = []
    monkeypatch.setattr(
        MergeRecords, "read", lambda self, merge, real=MergeRecords.read: read.append(merge.id) or real(self, merge)
    )
    for number in range(PAGE):
        add_merge(twins[0], number)
    with open_graph(twins[0].storage, mode="read_only") as graph:
        assert len(graph.refs.log(ROOT, LogFilter(), PAGE, None).commits) == PAGE
        assert read == []
        full = graph.refs.log(ROOT, LogFilter(), 3 * PAGE, None, is_full=True)
    assert len(full.commits) == 3 * PAGE
    assert len(read) == PAGE


@pytest.mark.usefixtures("no_records")
def test_a_branch_that_is_in_no_other_history_is_merged_without_reading_records(twins):
    driver, name = twins[0], BranchName("apart")
    driver.graph.create_branch(name)
    insert(driver.graph, PERSON, node_rows(["own"]), branch=name)
    for number in range(3):
        add_merge(driver, number)
    found = relate(driver.graph, driver.graph.snapshot(name), driver.graph.snapshot(ROOT))
    assert len(found.commits) == 1


def test_a_cleanup_reads_the_records_of_those_merges_alone_that_not_every_branch_has(twins, monkeypatch):
    graph, name = twins[0].graph, BranchName("late")
    graph.create_branch(name)
    for number in range(3):
        add_merge(twins[0], number)
    read = set()
    monkeypatch.setattr(
        MergeRecords, "read", lambda self, merge, real=MergeRecords.read: read.add(merge.id) or real(self, merge)
    )
    histories = read_histories(graph)
    decide_kept(graph, histories, Retention(keep=1), 0)
    (main,) = (history for history in histories if history.ref is None)
    merges = {made.id: made.version for made in main.own if made.merge is not None}
    # The state that a branch began at may be one of a merge, too.
    begun = min(history.ref.forked_version for history in histories if history.ref is not None)
    later = {merge for merge, version in merges.items() if version >= begun}
    assert len(merges) >= MERGED + 3
    assert len(later) < len(merges) / 2
    assert 3 <= len(read) <= len(later)
    assert read <= later


def test_deleting_a_branch_that_was_merged_costs_a_constant(fresh_driver, endpoint):
    costs = set()
    for depth in (1, 10):
        driver = fresh_driver(depth, 4)
        name = ready_branch(driver)
        driver.write_to_branch(name)
        join(driver.graph, name)
        driver.settle()
        last = driver.graph._branches.authorities[name]._publisher._releaser._last
        if last is not None:
            last.result()
        calls, _ = deletion(driver, endpoint, name)
        assert calls <= RETIRE_CALLS
        costs.add(calls)
    assert len(costs) == 1
