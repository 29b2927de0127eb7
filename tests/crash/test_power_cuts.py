"""The power goes before each sync of each operation: the graph opens, and holds all of a write or nothing.

An acknowledged write is always there, and the next one goes through.
"""

from dataclasses import dataclass

import pytest

from omnigraph.txn.claims import identity as writers
from omnigraph.txn.proposals import BranchPoint, Opened
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import BranchName, CommitId, TagName, Ulid
from tests.crash.checks import assert_sound, state_of, without_indexes
from tests.crash.kinds import DRAFT, KINDS, WriterKind
from tests.crash.matrix import IS_FULL
from tests.crash.power import VARIANTS, Recorder
from tests.marks import first
from tests.txn_graph import PERSON, TEAM, insert, node_rows, open_graph

pytestmark = [pytest.mark.more, pytest.mark.long]

FULL = TxnSettings(durability="full")
# What writers of this process say while the power is still on; afterwards the machine has another boot.
HOST_BEFORE = "here/boot-before-the-cut/pid"
# A plain run cuts where a name is about to be synced that others rely on, and a few times elsewhere.
_TELLING = (".manifest", ".json", ".json#1")
_ELSEWHERE = 2


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What is done while the power is on, upon the graph that a kind of writer begins with."""

    kind: WriterKind
    run: object


def _kind(name):
    kind = KINDS[name]
    return Operation(kind=kind, run=kind.write)


_HEAD = BranchPoint(branch=BranchName("main"), incarnation="main", head=CommitId(Ulid("0" * 26)))
_PROPOSAL = Opened(title="t", description="", source=_HEAD, target=_HEAD, texts=(), checks=(), required_approvals=0)
OPERATIONS = {
    "insert": _kind("insert"),
    "load": _kind("load_append"),
    "schema apply": _kind("schema_apply_with_rows"),
    "branch create": Operation(kind=KINDS["insert"], run=lambda graph: graph.create_branch(BranchName(DRAFT))),
    "first write on a branch": _kind("branch_fork"),
    "tag": Operation(kind=KINDS["insert"], run=lambda graph: graph.create_tag(TagName("named"), "main~1")),
    "merge": _kind("branch_merge"),
    "branch delete": Operation(
        kind=KINDS["branch_write_and_fork"], run=lambda graph: graph.delete_branch(BranchName(DRAFT))
    ),
    "optimize": _kind("optimize"),
}
LONG = {
    "proposal": Operation(kind=KINDS["insert"], run=lambda graph: graph.proposals.open(_PROPOSAL, "ann")),
    "mutate": _kind("mutate"),
    "overwrite": _kind("load_overwrite"),
    "schema alter": _kind("schema_alter"),
    "second write on a branch": _kind("branch_write_and_fork"),
    "indexes": _kind("ensure_indices"),
    "group": _kind("group"),
    "written elsewhere": _kind("written_rows"),
}
if IS_FULL:
    OPERATIONS |= LONG


def _seen(graph):
    proposed = [len(events) for events in graph.proposals.read_many(graph.proposals.marked()).values()]
    return without_indexes(state_of(graph)), sorted(tag.name for tag in graph.tags.list()), proposed


def _look(storage):
    with open_graph(storage, mode="read_only") as graph:
        return _seen(graph)


def _record(operation, storage, monkeypatch):
    recorder = Recorder(storage.path())
    try:
        with recorder.recording(monkeypatch), monkeypatch.context() as patched:
            patched.setattr(writers, "_host", lambda: HOST_BEFORE)
            graph = open_graph(storage, settings=FULL)
            operation.run(graph)
            # The write is acknowledged here. What runs behind it comes later.
            patched.undo()
        graph.close()
    finally:
        recorder.close()
    return recorder.cuts


def _chosen(cuts):
    if IS_FULL:
        return cuts
    telling = {cut.number for cut in cuts if cut.before.endswith(_TELLING)}
    # The first ones come before anything has happened.
    spread = {cut.number for cut in cuts[:: max(1, len(cuts) // _ELSEWHERE)]} - {0}
    return [cut for cut in cuts if cut.number in telling | spread | {cuts[-1].number}]


def _assert_survives(cut, storage, before, after):
    is_acknowledged = cut.before == ""
    told = f"cut={cut.number} variant={cut.variant} before={cut.before}"
    allowed = [after] if is_acknowledged else [before, after]
    first = _look(storage)
    assert first in allowed, told
    with open_graph(storage, settings=FULL) as graph:
        recovered = _seen(graph)
        assert recovered in allowed, told
        for branch in graph.branch_names():
            insert(graph, PERSON, node_rows(["next"]), branch=branch)
            insert(graph, TEAM, node_rows(["next"]), branch=branch) if TEAM in _tables(graph, branch) else None
        # Nothing of what was not there comes back, nothing of what was goes.
        assert {branch for branch, *_ in [*recovered[0].items()]} == set(graph.branch_names()), told
    assert_sound(storage)


def _tables(graph, branch):
    return graph.snapshot(branch).state.tables


@pytest.mark.parametrize("name", first(4, OPERATIONS))
def test_a_power_cut_leaves_all_of_a_write_or_nothing_and_never_a_graph_that_does_not_open(name, tmp_path, monkeypatch):
    operation = OPERATIONS[name]
    storage = operation.kind.prepare(str(tmp_path / "g"), None)
    before = _look(storage)
    cuts = _record(operation, storage, monkeypatch)
    after = _look(storage)
    assert before != after or name in {"optimize", "indexes"}
    assert {cut.variant for cut in cuts} == set(VARIANTS)
    for cut in _chosen(cuts):
        root = cut.write_to(tmp_path / f"{cut.number}-{cut.variant}")
        _assert_survives(cut, type(storage).open(str(root)), before, after)
