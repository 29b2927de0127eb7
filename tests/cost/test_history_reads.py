"""Reading history costs what changed, not what the graph holds."""

import pyarrow as pa
import pytest

from omnigraph.history.diff.compare import GraphDiff
from omnigraph.history.diff.rows import table_delta
from omnigraph.history.diff.selection import select_differing
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.runtime import Counters, counting
from omnigraph.store.location import Storage
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.history_graph import PERSON, SCHEMAS, compact, create, open_store, write

SIZES = (20_000, 200_000)
CHANGED = 100
# Both versions are found and opened, then deletions, changed rows as they were and as they are.
DIFF_CALLS = 16


def people(count, age=0):
    ids = [f"person-{number * 7919 % count:08d}" for number in range(count)]
    columns = {"id": ids, "age": range(age, age + count), "weight": [0.5] * count, "tags": [["a", "b"]] * count}
    return pa.table({**columns, "born": pa.nulls(count)}, schema=SCHEMAS[PERSON])


def person(age):
    return {"age": age, "weight": None, "tags": None, "born": None}


def aged(rows):
    return rows.set_column(1, SCHEMAS[PERSON].field("age"), pa.array([-1] * rows.num_rows, pa.int64()))


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """For each size the storage of a graph, and the commits before and after a hundred of its rows changed."""
    made = {}
    for size in SIZES:
        storage = create(tmp_path_factory.mktemp("cost") / "graph")
        with open_store(storage) as store:
            branch_writer = store.branch_writer(BranchName(MAIN))
            txn = branch_writer.begin(WriteKind.INSERT)
            txn.insert(PERSON, people(size))
            before = branch_writer.commit(txn).commit
            txn = branch_writer.begin(WriteKind.LOAD_MERGE)
            txn.upsert(
                PERSON,
                people(size).slice(size // 2, CHANGED).set_column(1, SCHEMAS[PERSON].field("age"), [[-1] * CHANGED]),
            )
            after = branch_writer.commit(txn).commit
        made[size] = (storage.root, before, after)
    return made


def diff_cost(root, before, after):
    """The cost of a difference for a process that has nothing in memory."""
    counters = Counters()
    with open_store(Storage.open(root), mode="read_only") as store:
        with counting(counters):
            old, new = store.snapshot_of(before), store.snapshot_of(after)
        selected = select_differing(old.table(PERSON), new.table(PERSON))
        with counting(counters):
            changes = list(GraphDiff(old, new))
    assert len(changes) == CHANGED
    return counters.cost(), [rows.row_count for rows in selected]


def test_a_difference_reads_the_rows_that_changed_and_no_others(graphs):
    costs = {}
    for size, (root, before, after) in graphs.items():
        for first, second in ((before, after), (after, before)):
            cost, selected = diff_cost(root, first, second)
            assert selected == [CHANGED, CHANGED]
            assert cost.total_calls <= DIFF_CALLS
            costs.setdefault(size, []).append(cost.bytes_read)
    small, large = (max(costs[size]) for size in SIZES)
    assert large <= 3 * small


def test_a_feed_that_is_caught_up_reads_one_thing_whatever_the_depth(tmp_path):
    with open_store(create(tmp_path / "graph")) as store:
        reader, found = ChangeReader(store), []
        for depth in range(1, 81):
            write(store, {PERSON: {"a": person(depth)}})
            if depth in {5, 40, 80}:
                cursor = reader.poll(start="now").cursor
                with counting() as counters:
                    assert reader.poll(cursor=cursor).is_caught_up
                found.append(counters.cost().total_calls)
        assert max(found) <= 1


def test_a_poll_far_behind_reads_as_far_as_its_commits_go(tmp_path):
    storage = create(tmp_path / "graph")
    costs = []
    with open_store(storage) as store:
        first = write(store, {PERSON: {"a": person(0)}})
        for depth in range(1, 121):
            write(store, {PERSON: {"a": person(depth)}})
            if depth in {30, 120}:
                with open_store(storage, mode="read_only") as reader, counting() as counters:
                    page = ChangeReader(reader).poll(start=f"after:{first.id}", limits=PageLimits(commits=3))
                assert len(page.blocks) == 3
                costs.append(counters.cost().total_calls)
    # Finding the place reads one fragment of lineage more for each time that history has grown several times over.
    assert costs[1] < 2 * costs[0]


def test_a_compacted_table_is_compared_without_being_held_whole(graphs):
    root, before, _ = graphs[SIZES[1]]
    with open_store(Storage.open(root)) as store:
        compacted = compact(store, PERSON)
        held = []
        old, new = store.snapshot_of(before), store.snapshot_of(compacted)
        changes = sum(1 for _ in GraphDiff(old, new))
        table_delta(old.table(PERSON), new.table(PERSON), held.append)
        whole = new.table(PERSON).read().nbytes
    assert changes == CHANGED
    assert max(held) < 2 * whole
