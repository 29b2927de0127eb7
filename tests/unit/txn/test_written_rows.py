"""Writes whose rows other processes have uploaded: what they publish, and what they do when their table has moved."""

import numpy as np
import pytest
from tests.txn_graph import PERSON, TEAM, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import ExpectedVersionMismatchError, UsageError
from omnigraph.store.staging import BuiltIndex, IndexBuild
from omnigraph.store.staging.compaction import number_compacted, plan_compaction
from omnigraph.store.staging.indexes import segments_of
from omnigraph.store.tables.portable import (
    TableTicket,
    build_segment,
    carried_fragments,
    index_work,
    run_compaction_task,
    shrink_fragment,
    write_fragments_for,
)
from omnigraph.txn.changes import TableReplace, TableSteps, WrittenRows
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.transaction import CommitView
from omnigraph.values import MAIN, BranchName

DRAFT = "draft"
BY_ID = IndexBuild(column="id", kind="btree", name="id_btree")


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "graph")


@pytest.fixture
def graph(storage):
    # Synced to the disk, so that a file which a change does not name would be noticed.
    with open_graph(storage, settings=TxnSettings()) as opened:
        insert(opened, PERSON, node_rows(["a", "b"]))
        yield opened


class ElsewhereWriter:
    """A write in the making, with what its executors do."""

    def __init__(self, graph, storage, kind=WriteKind.LOAD_APPEND, branch=MAIN):
        self.storage = storage
        self.branch_writer = authority_of(graph, branch)
        self.txn = self.branch_writer.begin(kind, actor="loader")

    def ticket(self, table_key=PERSON):
        return TableTicket(storage=self.storage, pin=self.branch_writer.prepare(self.txn, table_key))

    def append(self, *ids, table_key=PERSON, **options):
        ticket = self.ticket(table_key)
        fragments = tuple(write_fragments_for(ticket, node_rows(ids, value=1)))
        self.txn.change(WrittenRows(table_key=table_key, base=ticket.pin, fragments=fragments, **options))
        return self

    def merge(self, *ids, value=2):
        """Replace the rows of these ids, all of which exist."""
        ticket = self.ticket()
        found = ticket.open().lookup(list(ids), ())
        fragments = carried_fragments(
            ticket, node_rows(found["id"].to_pylist(), value), found["_rowid"].to_numpy().astype(np.uint64)
        )
        shrunk, removed = [], []
        addresses = found["_rowaddr"].to_numpy()
        for owner in np.unique(addresses >> 32).tolist():
            offsets = (addresses[addresses >> 32 == owner] & 0xFFFFFFFF).astype(np.uint32)
            outcome = shrink_fragment(ticket, owner, offsets)
            (removed if outcome is None else shrunk).append(owner if outcome is None else outcome)
        self.txn.change(
            WrittenRows(
                table_key=PERSON,
                base=ticket.pin,
                fragments=tuple(fragments),
                shrunk=tuple(shrunk),
                removed=tuple(removed),
            )
        )
        return self

    def compact(self):
        ticket = self.ticket()
        results = tuple(run_compaction_task(ticket, task) for task in plan_compaction(ticket.open()))
        step = number_compacted(ticket.open(), results)
        self.txn.change(TableSteps(table_key=PERSON, base=ticket.pin, steps=(step,)))
        return self

    def index(self):
        ticket = self.ticket()
        work = index_work(ticket.open(), BY_ID, group_rows=1)
        segments = tuple(build_segment(ticket, BY_ID, group) for group in work.groups)
        built = BuiltIndex(build=BY_ID, segments=segments, rebuilds=work.rebuilds)
        step = segments_of(ticket.open(), (built,), built_on=ticket.pin.version)
        self.txn.change(TableSteps(table_key=PERSON, base=ticket.pin, steps=(step,)))
        return self

    def commit(self):
        return self.branch_writer.commit(self.txn)


def values_of(graph, branch=MAIN, table_key=PERSON):
    """The rows that a fresh look at the branch shows, by id."""
    snapshot = graph.snapshot(BranchName(branch))
    table = snapshot.table(table_key)
    rows = table.read(["id", "value"])
    assert rows.num_rows == table.row_count == snapshot.entry(table_key).row_count
    return dict(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True))


def test_a_load_from_elsewhere_publishes_all_of_its_tables_at_once(graph, storage):
    result = ElsewhereWriter(graph, storage).append("c").append("t", table_key=TEAM).commit()
    assert values_of(graph) == {"a": 0, "b": 0, "c": 1}
    assert values_of(graph, table_key=TEAM) == {"t": 1}
    assert result.commit.touched == (PERSON, TEAM)
    with open_graph(storage) as other:
        assert values_of(other) == values_of(graph)


def test_an_append_from_elsewhere_goes_on_upon_what_others_wrote_meanwhile(graph, storage):
    writer = ElsewhereWriter(graph, storage).append("c")
    insert(graph, PERSON, node_rows(["meanwhile"]))
    writer.commit()
    assert values_of(graph) == {"a": 0, "b": 0, "meanwhile": 0, "c": 1}
    assert len(history(graph)) == 4


@pytest.mark.parametrize("kind", ["merge", "overwrite"])
def test_what_was_decided_on_a_tables_rows_is_refused_when_it_has_moved(graph, storage, kind):
    if kind == "merge":
        writer = ElsewhereWriter(graph, storage, WriteKind.LOAD_MERGE).merge("a")
    else:
        writer = ElsewhereWriter(graph, storage).append("c", replaces_all=True)
    insert(graph, PERSON, node_rows(["meanwhile"]))
    with pytest.raises(ExpectedVersionMismatchError, match="node:Person"):
        writer.commit()
    assert values_of(graph) == {"a": 0, "b": 0, "meanwhile": 0}


def test_a_merge_from_elsewhere_keeps_its_rows_and_an_overwrite_replaces_them(graph, storage):
    ElsewhereWriter(graph, storage, WriteKind.LOAD_MERGE).merge("a").commit()
    assert values_of(graph) == {"a": 2, "b": 0}
    ElsewhereWriter(graph, storage, WriteKind.LOAD_MERGE).merge("a", "b", value=3).commit()
    assert values_of(graph) == {"a": 3, "b": 3}
    ElsewhereWriter(graph, storage, WriteKind.LOAD_OVERWRITE).append("only", replaces_all=True).commit()
    assert values_of(graph) == {"only": 1}


def test_a_branch_that_inherits_a_table_gets_the_rows_in_a_fork_of_its_own(graph, storage):
    graph.create_branch(BranchName(DRAFT))
    ElsewhereWriter(graph, storage, WriteKind.LOAD_MERGE, DRAFT).merge("a").commit()
    ElsewhereWriter(graph, storage, branch=DRAFT).append("c").append("t", table_key=TEAM).commit()
    assert values_of(graph, DRAFT) == {"a": 2, "b": 0, "c": 1}
    assert values_of(graph, DRAFT, TEAM) == {"t": 1}
    assert values_of(graph) == {"a": 0, "b": 0}
    with open_graph(storage) as other:
        assert read_ids(other, PERSON, DRAFT) == ["a", "b", "c"]


def test_rows_in_a_fork_are_refused_when_the_branch_got_another_fork_meanwhile(graph, storage):
    graph.create_branch(BranchName(DRAFT))
    writer = ElsewhereWriter(graph, storage, branch=DRAFT).append("c")
    insert(graph, PERSON, node_rows(["meanwhile"]), branch=DRAFT)
    with pytest.raises(ExpectedVersionMismatchError):
        writer.commit()
    ElsewhereWriter(graph, storage, branch=DRAFT).append("c").commit()
    assert read_ids(graph, PERSON, DRAFT) == ["a", "b", "c", "meanwhile"]


def test_maintenance_from_elsewhere_lands_beside_an_append_and_keeps_every_row(graph, storage):
    insert(graph, PERSON, node_rows(["c"]))
    compaction = ElsewhereWriter(graph, storage, WriteKind.OPTIMIZE).compact()
    insert(graph, PERSON, node_rows(["late"]))
    compaction.commit()
    indexing = ElsewhereWriter(graph, storage, WriteKind.ENSURE_INDICES).index()
    insert(graph, PERSON, node_rows(["later"]))
    indexing.commit()
    table = graph.snapshot(BranchName(MAIN)).table(PERSON)
    assert [index.name for index in table.indexes()] == ["id_btree"]
    assert len(table.fragments) == 3
    assert sorted(table.lookup(["a", "c", "late", "later"], ())["id"].to_pylist()) == [
        "a",
        "c",
        "late",
        "later",
    ]


def test_maintenance_of_rows_that_changed_meanwhile_is_refused(graph, storage):
    insert(graph, PERSON, node_rows(["c"]))
    writer = ElsewhereWriter(graph, storage, WriteKind.OPTIMIZE).compact()
    ElsewhereWriter(graph, storage, WriteKind.LOAD_MERGE).merge("a").commit()
    with pytest.raises(ExpectedVersionMismatchError):
        writer.commit()


def test_rows_from_elsewhere_share_a_table_with_no_other_change_and_a_publish_with_no_other_write(graph, storage):
    writer = ElsewhereWriter(graph, storage).append("c")
    with pytest.raises(UsageError):
        writer.txn.change(TableReplace(table_key=PERSON, rows=node_rows([])))
    assert not writer.txn.can_group
    view = CommitView(writer.txn.snapshot, writer.txn.changes)
    assert view.existing_ids(PERSON, ["a", "c"]) == {"a"}
