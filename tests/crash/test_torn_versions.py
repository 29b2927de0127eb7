"""Versions that are torn or gone are stepped over when nobody was told of them, and told as damage otherwise."""

import logging
import struct

import pytest

from omnigraph.errors import StorageCorruptError
from omnigraph.store.control import ControlObjects
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.versions import version_file
from omnigraph.txn.claims import identity as writers
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import BranchName
from tests.crash.checks import assert_sound, recovery_kinds
from tests.crash.torn import FULL, fill, sidecars, stop_write
from tests.txn_graph import (
    PERSON,
    TEAM,
    authority_of,
    history,
    init_graph,
    insert,
    node_rows,
    open_graph,
    read_ids,
)

pytestmark = pytest.mark.more

DRAFT = "draft"


def _hollow(data):
    """Bytes whose end is as it should be, while a piece of the message before it never got to the disk."""
    start = struct.unpack("<Q", data[-16:-8])[0]
    return data[: start + 8] + bytes(100) + data[start + 108 :]


# What a power failure makes of a file that was not on the disk yet.
TEARS = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "a little short": lambda data: data[:-3],
    "zeros": lambda data: bytes(len(data)),
    "zeros in its midst": _hollow,
}


@pytest.fixture(params=[None, DRAFT], ids=["main", "branch"])
def branch(request):
    return request.param


@pytest.fixture
def storage(tmp_path, branch):
    made = init_graph(tmp_path / "g")
    fill(made)
    if branch is not None:
        with open_graph(made) as graph:
            graph.create_branch(BranchName(branch))
            insert(graph, PERSON, node_rows(["drafted"]), branch=branch)
    return made


def _newest(storage, line=None):
    with open_graph(storage, mode="read_only") as graph:
        return graph.stores.datasets.versions.newest("__manifest", line)


def _file(storage, version, line=None, location="__manifest"):
    return storage.path(version_file(TablePin(location=location, branch=line, version=version)))


def _damage(path, tear):
    path.write_bytes(TEARS[tear](path.read_bytes()))


def _ids(graph, branch):
    return read_ids(graph, PERSON, branch or "main")


@pytest.mark.parametrize("tear", TEARS)
def test_a_torn_version_that_nobody_was_told_of_is_stepped_over_and_its_write_is_finished(
    storage, branch, tear, monkeypatch, caplog
):
    with open_graph(storage) as early:
        before = _ids(early, branch)
        line = stop_write(storage, "txn.publish.after_cas", monkeypatch, branch)
        newest = _newest(storage, line)
        _damage(_file(storage, newest, line), tear)
        with caplog.at_level(logging.WARNING), open_graph(storage, mode="read_only") as graph:
            assert _ids(graph, branch) == before
        assert "never acknowledged" in caplog.text
        assert len(sidecars(storage)) == 1
        assert _ids(early, branch) == before
        # Whoever was open all the time meets the claim, ends it and goes on.
        insert(early, PERSON, node_rows(["x"]), branch=branch or "main")
        assert _ids(early, branch) == sorted([*before, "torn", "x"])
    with open_graph(storage) as graph:
        assert [commit.actor for commit in history(graph, branch or "main")].count("torn") == 1
    assert recovery_kinds(storage) == []
    assert [path.name for path in storage.path("__torn").iterdir()]
    assert_sound(storage)


def test_opening_for_writing_settles_a_torn_version(storage, branch, monkeypatch):
    line = stop_write(storage, "txn.publish.after_cas", monkeypatch, branch)
    newest = _newest(storage, line)
    _damage(_file(storage, newest, line), "zeros")
    open_graph(storage).close()
    assert sidecars(storage) == ()
    assert _newest(storage, line) == newest
    assert_sound(storage)
    with open_graph(storage, mode="read_only") as graph:
        assert "torn" in _ids(graph, branch)


@pytest.mark.parametrize("tear", TEARS)
def test_torn_table_versions_that_no_commit_names_are_put_aside_and_the_write_is_undone(
    storage, branch, tear, monkeypatch
):
    with open_graph(storage) as graph:
        before = _ids(graph, branch)
        if branch is not None:
            # Of its own, so that the next write commits to them.
            insert(graph, TEAM, node_rows(["drafted"]), branch=branch)
    stop_write(storage, "txn.commit.after_tables", monkeypatch, branch)
    with open_graph(storage, mode="read_only") as graph:
        pin = graph.snapshot(BranchName(branch or "main")).state.tables[PERSON].pin
    _damage(_file(storage, pin.version + 1, pin.branch, pin.location), tear)
    with open_graph(storage, mode="read_only") as graph:
        assert _ids(graph, branch) == before
    with open_graph(storage) as graph:
        assert _ids(graph, branch) == before
        insert(graph, PERSON, node_rows(["x"]), branch=branch or "main")
        insert(graph, TEAM, node_rows(["x"]), branch=branch or "main")
        assert _ids(graph, branch) == sorted([*before, "x"])
    assert_sound(storage)


def _read(storage, branch, mode):
    with open_graph(storage, mode=mode) as graph:
        return _ids(graph, branch)


def _assert_told(storage, branch, path):
    for mode in ("read_only", "read_write"):
        found = path.read_bytes() if path.exists() else None
        with pytest.raises(StorageCorruptError) as caught:
            _read(storage, branch, mode)
        assert caught.value.code == "storage.corrupt"
        assert path.name in caught.value.details.location
        assert (path.read_bytes() if path.exists() else None) == found


@pytest.mark.parametrize("tear", TEARS)
def test_an_acknowledged_version_that_is_torn_is_damage_and_stays_as_it_is(storage, branch, tear):
    line = _line(storage, branch)
    path = _file(storage, _newest(storage, line), line)
    _damage(path, tear)
    _assert_told(storage, branch, path)


def test_an_acknowledged_version_is_not_taken_back_while_its_claim_is_still_there(storage, branch, monkeypatch):
    """The process dies after it has told its caller, and before it removes its claim."""
    with monkeypatch.context() as patched:
        patched.setattr(writers, "_host", lambda: "here/boot-before-the-cut/pid")
        patched.setattr(ControlObjects, "delete", lambda *_: None)
        patched.setattr(ControlObjects, "unmark", lambda *_: None)
        with open_graph(storage, settings=FULL) as graph:
            insert(graph, PERSON, node_rows(["told"]), branch=branch or "main")
    assert len(sidecars(storage)) == 1
    line = _line(storage, branch)
    path = _file(storage, _newest(storage, line), line)
    whole = path.read_bytes()
    _damage(path, "cut off")
    _assert_told(storage, branch, path)
    path.write_bytes(whole)
    with open_graph(storage) as graph:
        assert "told" in _ids(graph, branch)
    assert_sound(storage)


def _line(storage, branch):
    with open_graph(storage) as graph:
        return authority_of(graph, branch or "main").services.line.lance_branch


def test_a_lost_version_that_the_hint_still_names_is_damage(storage, branch):
    line = _line(storage, branch)
    path = _file(storage, _newest(storage, line), line)
    path.unlink()
    _assert_told(storage, branch, path)


def test_a_lost_version_that_nobody_was_told_of_is_written_again(storage, branch, monkeypatch):
    with open_graph(storage) as graph:
        before = _ids(graph, branch)
    line = stop_write(storage, "txn.publish.after_cas", monkeypatch, branch)
    _file(storage, _newest(storage, line), line).unlink()
    with open_graph(storage, mode="read_only") as graph:
        assert _ids(graph, branch) == before
    with open_graph(storage) as graph:
        assert _ids(graph, branch) == sorted([*before, "torn"])
    assert_sound(storage)


@pytest.mark.parametrize("tear", TEARS)
def test_a_torn_audit_does_not_stop_recovery(tmp_path, tear, monkeypatch):
    storage = init_graph(tmp_path / "g")
    fill(storage)
    for _ in range(2):
        stop_write(storage, "txn.publish.after_cas", monkeypatch)
        if storage.path("_graph_commit_recoveries.lance").exists():
            _damage(_file(storage, 1, location="_graph_commit_recoveries.lance"), tear)
        with open_graph(storage) as graph:
            insert(graph, PERSON, node_rows([f"x{len(read_ids(graph, PERSON))}"]))
            branch_writer = authority_of(graph)
            txn = branch_writer.begin(WriteKind.MUTATE)
            txn.delete(PERSON, ["torn"])
            txn.delete(TEAM, ["torn"])
            branch_writer.commit(txn)
    assert_sound(storage)
