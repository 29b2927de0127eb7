"""Commits that were published together: each has its own rows in blame, versions, feeds and reverts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.formats import make_format
from tests.merge_graph import DRAFT, Template, head_of, history_of, put, put_together
from tests.session_graph import read_graph
from tests.txn_graph import authority_of, init_graph, node_rows, open_graph, read_ids

from omnigraph.engine.mutate.values import rows_of
from omnigraph.errors import MergeConflictsError, RevertRefusedError
from omnigraph.history.feed.blame import blame
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.merge import merge_branch, revert_commit
from omnigraph.txn.manifest import shared
from omnigraph.txn.manifest.shared import MOST_NAMED, SharedVersion, can_name, name_rows
from omnigraph.txn.publish import batch
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

PERSON, KNOWS = "node:Person", "edge:Knows"
SCHEMA = """
node Person { name: String @key  nick: String? }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "a"}}
{"type": "Person", "data": {"name": "b"}}
{"type": "Person", "data": {"name": "c"}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}}
"""
# What each of three authors does; the second is the largest, which names no row.
WRITES = {
    "ann": {PERSON: {"a": {"name": "a", "nick": "x"}}, KNOWS: {"ab": None}},
    "bo": {PERSON: {name: {"name": name, "nick": None} for name in ("d", "e", "f", "g")}},
    "cy": {PERSON: {"c": None, "h": {"name": "h", "nick": "y"}}},
}
OWN = {"ann": ["a", "ab"], "bo": ["d", "e", "f", "g"], "cy": ["c", "h"]}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("shared"), SCHEMA, SEED)


@pytest.fixture
def session(template):
    with template.open() as opened:
        yield opened


def together(session, writes=WRITES, branch=MAIN):
    """Publish writes of several actors as one version; return their commits by actor."""
    return put_together(session, writes, branch)


def changed(reader, commit):
    """The ids that a commit changed, as its own page tells."""
    return sorted(change.id for change in reader.commit_changes(str(commit.id)).block.changes)


@pytest.fixture(params=["named", "not named"])
def is_named(request, monkeypatch):
    """Whether commits say which rows they wrote; those of early versions do not."""
    if request.param == "not named":
        monkeypatch.setattr(batch, "name_rows", lambda written: [None] * len(written))
    return request.param == "named"


def test_all_but_the_largest_name_their_rows_and_the_last_one_to_write_a_row_has_it():
    def ids(**tables):
        return {key: pa.array(names, pa.string()) for key, names in tables.items()}

    named = name_rows([ids(P=["a", "b"], K=["k"]), ids(P=["b", "c", "d", "e"]), ids(P=["e", "f"])])
    told = [None if one is None else {item.table_key: item.ids for item in one} for one in named]
    assert told == [{"P": ("a",), "K": ("k",)}, None, {"P": ("e", "f")}]


def test_blame_names_the_author_of_each_row(session):
    commits = together(session)
    store = session.store
    for actor, name, key in [("ann", "a", PERSON), ("bo", "e", PERSON), ("cy", "c", PERSON), ("ann", "ab", KNOWS)]:
        newest = blame(store, key, name).events[0]
        assert (newest.cause.commit, newest.op) == (
            commits[actor],
            {"a": "update", "e": "insert"}.get(name, "delete"),
        )
    assert [one.author for one in blame(store, PERSON, "h").properties] == [commits["cy"]] * 2
    # The state of each of them holds the rows of all.
    for commit in commits.values():
        assert blame(store, PERSON, "h", at=str(commit.id)).events[0].cause.commit == commits["cy"]


def test_blame_names_the_author_through_a_merge_of_a_branch_that_is_gone(session):
    commits = together(session, branch=DRAFT)
    put(session, PERSON, {"z": {"name": "z", "nick": None}})
    merge_branch(session, DRAFT)
    session.delete_branch(DRAFT)
    for actor, name in [("ann", "a"), ("bo", "g"), ("cy", "h")]:
        (authors,) = {one.author for one in blame(session.store, PERSON, name).events[0].authors}
        assert authors == commits[actor]
    reader = ChangeReader(session.store)
    assert {actor: changed(reader, commit) for actor, commit in commits.items()} == OWN


def test_the_version_of_a_row_is_the_commit_that_wrote_it(session, is_named):
    commits = together(session)
    found = session.query("query v() { match { $p: Person } return { $p.name as name, version($p) as v } }").rows()
    by_name = {row["name"]: row["v"] for row in found}
    expected = {"a": "ann", "d": "bo", "g": "bo", "h": "cy"} if is_named else dict.fromkeys("adgh", "cy")
    assert {name: by_name[name] for name in expected} == {name: commits[actor].id for name, actor in expected.items()}
    assert by_name["b"] not in {commit.id for commit in commits.values()}


def test_a_feed_delivers_each_change_with_its_author(session, is_named):
    before = head_of(session)
    commits = together(session)
    reader = ChangeReader(session.store)
    blocks = reader.poll(start=f"after:{before}").blocks
    assert [block.cause.commit for block in blocks] == list(commits.values())
    found = {block.cause.commit.actor: sorted(change.id for change in block.changes) for block in blocks}
    everything = sorted(name for names in OWN.values() for name in names)
    assert found == (OWN if is_named else {"ann": everything, "bo": [], "cy": []})
    assert {actor: changed(reader, commit) for actor, commit in commits.items()} == found
    # A reader that knows one of them is told the rest.
    after = reader.poll(start=f"after:{commits['ann'].id}").blocks
    assert [block.cause.commit.actor for block in after] == ["bo", "cy"]


@pytest.mark.parametrize("actor", WRITES)
def test_a_revert_undoes_the_rows_of_one_of_them(session, actor):
    before = read_graph(session)
    commits = together(session)
    after = read_graph(session)
    revert_commit(session, commits[actor].id)
    found = read_graph(session)
    for key in (PERSON, KNOWS):
        own = OWN[actor]
        assert found[key] == {
            **{name: row for name, row in after[key].items() if name not in own},
            **{name: row for name, row in before[key].items() if name in own},
        }
    assert history_of(session)[0].reverts == commits[actor].id


def test_rows_that_were_changed_again_are_conflicts_of_their_commit_alone(session):
    commits = together(session)
    put(session, PERSON, {"e": {"name": "e", "nick": "later"}})
    with pytest.raises(MergeConflictsError) as refused:
        revert_commit(session, commits["bo"].id)
    assert [conflict.entity_id for conflict in refused.value.details.items] == ["e"]
    for actor in ("ann", "cy"):
        revert_commit(session, commits[actor].id)
    assert set(read_graph(session)[PERSON]) == {*"abc", *"defg"}


def test_a_row_that_two_of_them_wrote_is_the_later_ones(session):
    commits = together(
        session,
        {
            "ann": {PERSON: {"a": {"name": "a", "nick": "first"}, "b": {"name": "b", "nick": "only"}}},
            "bo": {PERSON: {"a": {"name": "a", "nick": "second"}}},
        },
    )
    reader = ChangeReader(session.store)
    assert [changed(reader, commits[actor]) for actor in ("ann", "bo")] == [["b"], ["a"]]
    assert blame(session.store, PERSON, "a").events[0].cause.commit == commits["bo"]


def test_commits_of_early_versions_that_do_not_name_their_rows_are_not_undone(session, monkeypatch):
    monkeypatch.setattr(batch, "name_rows", lambda written: [None] * len(written))
    before = head_of(session)
    for commit in together(session).values():
        with pytest.raises(RevertRefusedError, match="did not record which rows each of them wrote"):
            revert_commit(session, commit.id)
    assert history_of(session)[len(WRITES)].id == before


def people(*names):
    return {PERSON: {name: {"name": name, "nick": None} for name in names}}


def test_writes_share_a_version_only_while_their_commits_can_name_their_rows(session, monkeypatch):
    monkeypatch.setattr(shared, "MOST_NAMED", 3)
    branch_writer, owner = session.store.branch_writer(BranchName(MAIN)), session.catalog().nodes["Person"]
    txns = []
    for number, size in enumerate([2, 5, 1, 4]):
        txn = branch_writer.begin(WriteKind.INSERT)
        names = [f"n{number}-{place}" for place in range(size)]
        txn.insert(PERSON, rows_of(owner, [{"id": name, "name": name, "nick": None} for name in names]))
        txns.append(txn)
    outcomes = branch_writer._run(txns)
    versions = [outcome.manifest_version for outcome in outcomes]
    # Beside the one of five there is room for three rows: the one of four waits for the next version.
    assert [version - versions[0] for version in versions] == [0, 0, 0, 1]
    wrote = [outcome.commit.wrote for outcome in outcomes]
    assert [None if one is None else [len(item.ids) for item in one] for one in wrote] == [[2], None, [1], None]
    assert can_name([MOST_NAMED])


def test_commits_of_a_branch_of_the_first_format_have_versions_of_their_own(tmp_path):
    storage = init_graph(tmp_path / "g")
    make_format(storage, "1")
    with open_graph(storage) as graph:
        branch_writer = authority_of(graph)
        txns = [branch_writer.begin(WriteKind.INSERT) for _ in range(2)]
        for txn, name in zip(txns, "xy", strict=True):
            txn.insert(PERSON, node_rows([name]))
        first, second = branch_writer._run(txns)
        assert second.manifest_version == first.manifest_version + 1
        assert (first.commit.wrote, second.commit.wrote) == (None, None)
        assert read_ids(graph, PERSON) == ["x", "y"]


def test_a_lone_commit_names_nothing(session):
    commit = put(session, PERSON, {"a": {"name": "a", "nick": "x"}}).commit
    assert commit.wrote is None
    line = session.store.line_of(session.snapshot())
    version, first = SharedVersion.of_line(line, len(line) - 1)
    assert (version.commits, first) == ((commit,), len(line) - 1)
    assert (version.rows_of(commit), version.author(PERSON, "a")) == (None, commit)
