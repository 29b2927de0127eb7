"""Graphs that earlier versions wrote are read, written and migrated, on a disk and on an object store.

``write_store.py`` says which version wrote which, and what each of them has.
"""

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import FormatUnsupportedError
from omnigraph.runtime import CallContext, calling
from omnigraph.store.location import Storage
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.settings import TxnSettings
from tests.auditor import audit
from tests.formats import FORMAT_1
from tests.marks import STORES
from tests.upgrade.moving import put_store
from tests.upgrade.write_store import INSERT

ARCHIVES = Path(__file__).parent / "stores"
NAMES = ("first", "branches", "last")
RELAXED = TxnSettings(durability="relaxed")
PEOPLE = "query people() { match { $p: Person } return { $p.slug, $p.age } order { $p.slug } }"
FRIENDS = "query friends() { match { $p: Person $p knows $q } return { $p.slug, $q.slug } }"
NEAR = "query near($v: Vector(4)) { match { $p: Person } return { $p.slug } order { nearest($p.near, $v) } limit 1 }"

SLUGS = {
    "first": ["ann", "bo", "di", "eve"],
    "branches": ["ann", "bo", "eve", "fay"],
    "last": ["ann", "bo", "eve", "fay", "hal", "jo"],
}
_FIRST = ["insert", "mutate", "mutate", "load_append", "init"]
_BRANCHES = ["mutate", "mutate", "schema_apply", "branch_merge", *_FIRST]
OPERATIONS = {
    "first": _FIRST,
    "branches": _BRANCHES,
    "last": ["optimize", "load_apply", "revert", "insert", "insert", *_BRANCHES],
}


@pytest.fixture(params=STORES)
def place_of(request, tmp_path):
    """What puts a store where graphs are, and returns its address and the options for it."""

    def put(name):
        endpoint = None if request.param == "local" else request.getfixturevalue("s3_endpoint")
        root = str(tmp_path / "graph") if endpoint is None else endpoint.fresh_prefix()
        options = None if endpoint is None else endpoint.storage_options
        put_store(ARCHIVES / f"{name}.tar.gz", Storage.open(root, options))
        return root, options

    return put


def _open(place, mode="read_write"):
    root, options = place
    return omnigraph.open(root, mode=mode, storage_options=options, settings=RELAXED)


def _slugs(state):
    return [row["p.slug"] for row in state.query(PEOPLE).rows()]


def _formats(graph):
    return {line.name: line.format for line in graph.migrate(preview=True).found if line.kind == "branch"}


def _assert_all_there(graph, name, *, brought=()):
    assert _slugs(graph) == sorted([*SLUGS[name], *brought])
    assert graph.query(PEOPLE).rows()[0] == {"p.slug": "ann", "p.age": 40}
    assert graph.query(FRIENDS).rows() == [{"p.slug": "ann", "q.slug": "bo"}]
    assert graph.query(NEAR, {"v": [0, 1, 0, 0]}).rows() == [{"p.slug": "bo"}]
    assert [commit.operation for commit in graph.log()][-len(OPERATIONS[name]) :] == OPERATIONS[name]
    loaded = graph.log()[-2]
    assert _slugs(graph.at(loaded)) == ["ann", "bo", "cy", "di"]
    assert sorted(change.id for change in graph.diff(loaded) if change.op == "delete" and change.kind == "node")
    if name == "first":
        return
    assert _slugs(graph.at("tag:v1")) == ["ann", "bo", "di", "eve"]
    assert _slugs(graph.branch("open")) == ["ann", "bo", "di", "eve", "fay", "gus"]
    nick = graph.query('query n() { match { $p: Person { slug: "bo" } } return { $p.nick } }').rows()
    assert nick == [{"p.nick": "B"}]


@pytest.mark.parametrize("name", NAMES)
def test_a_store_of_format_1_is_read_and_written_as_it_is(place_of, name):
    place = place_of(name)
    with _open(place, "read_only") as graph:
        _assert_all_there(graph, name)
        assert set(_formats(graph).values()) == {1}
        assert any("run migrate" in line for line in graph.status().advice)
    with _open(place) as graph:
        graph.mutate(INSERT % ("zoe", "Zoe"))
        _assert_all_there(graph, name, brought=("zoe",))
        assert set(_formats(graph).values()) == {1}
    root, options = place
    GraphStore.open(Storage.open(root, options), formats=FORMAT_1, settings=RELAXED).close()


@pytest.mark.parametrize("name", NAMES)
def test_a_store_of_format_1_is_migrated_and_loses_nothing(place_of, name):
    place = place_of(name)
    with _open(place) as graph:
        branches = [branch.name for branch in graph.branches()]
        before = graph.log()
        assert graph.migrate(preview=True).outdated == tuple(branches)
        assert graph.migrate(actor="mira").migrated == tuple(branches)
        assert set(_formats(graph).values()) == {2}
        assert [commit.id for commit in graph.log()[1:]] == [commit.id for commit in before]
        assert graph.migrate().migrated == ()
        _assert_all_there(graph, name)
        graph.mutate(INSERT % ("zoe", "Zoe"))
        graph.optimize()
        graph.create_branch("later", at=str(before[-1].id))
        assert _slugs(graph.branch("later")) == []
        graph.delete_branch("later")
    with _open(place, "read_only") as graph:
        assert "zoe" in _slugs(graph)
        assert not any("run migrate" in line for line in graph.status().advice)
    root, options = place
    with pytest.raises(FormatUnsupportedError, match="storage format 2; this version supports 1 to 1") as caught:
        GraphStore.open(Storage.open(root, options), formats=FORMAT_1, settings=RELAXED)
    assert "upgrade omnigraph" in caught.value.hint
    if options is None:
        assert audit(root, options) == []


def test_what_later_versions_of_format_1_promised_still_holds_after_a_migration(place_of, tmp_path):
    place = place_of("last")
    (tmp_path / "late.jsonl").write_text(
        json.dumps({"type": "Person", "_op": "patch", "_seq": 15, "data": {"slug": "ida", "age": 1}})
    )
    with _open(place) as graph:
        graph.migrate()
        commits = len(graph.log())
        with calling(CallContext(request_id="r-2", idempotency_key="order-17", payload_digest="jo")):
            again = graph.mutate(INSERT % ("jo", "Jo"))
        assert len(graph.log()) == commits
        assert again.commit.request_id == "r-1"
        late = graph.load(str(tmp_path / "late.jsonl"), mode="apply", batch=("crm", 2))
        assert late.changes.superseded == 1
        assert _slugs(graph) == SLUGS["last"]
        assert graph.log()[-1].operation == "init"
        assert [commit.reverts for commit in graph.log() if commit.operation == "revert"] == [graph.log()[5].id]
