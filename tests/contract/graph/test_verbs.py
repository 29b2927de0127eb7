"""The objects people hold: one story through their verbs, and what they refuse."""

from __future__ import annotations

import io
import json
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import (
    BranchMissingError,
    FileMissingError,
    GraphClosedError,
    GraphMissingError,
    MergeConflictsError,
    PreconditionFailedError,
    ReadOnlyError,
    SchemaSyntaxError,
    UsageError,
    WrongQueryKindError,
)
from tests.session_graph import RELAXED

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: Date? }\n"
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
AGE = "query age($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
NAMES = "query names() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"


def make(root: Path) -> omnigraph.Graph:
    return omnigraph.init(root / "graph", SCHEMA, settings=RELAXED)


def names(state: omnigraph.Graph | omnigraph.Branch | omnigraph.Snapshot) -> list[str]:
    return [row["p.name"] for row in state.query(NAMES)]


def test_a_graph_is_written_branched_merged_looked_back_on_and_moved(tmp_path):
    (tmp_path / "people.jsonl").write_text('{"type": "Person", "data": {"name": "ann"}}\n')
    with make(tmp_path) as graph:
        assert graph.load(tmp_path / "people.jsonl", message="first").total == 1
        assert graph.mutate_batch(ADD, [{"name": "bo", "age": 7}, {"name": "cy", "age": None}]).affected_nodes == 2
        assert graph.create_tag("v1", message="three people").name == "v1"
        head = graph.query(NAMES).commit_id

        assert graph.create_branch("review", actor="mira").name == "review"
        review = graph.branch(" review ")
        review.mutate(AGE, {"name": "bo", "age": 8}, actor="mira", expected_head=head)
        assert [(change.op, change.id, change.changed) for change in review.diff("main")] == [
            ("update", "bo", ("age",))
        ]
        assert graph.preview_merge(review).conflicts == ()
        assert graph.merge(review, message="birthday").commit.message == "birthday"
        assert graph.diff(review).stats().types == ()
        assert [status.name for status in graph.branches()] == ["main", "review"]
        review.delete()
        with pytest.raises(BranchMissingError):
            graph.branch("review")

        assert [commit.operation for commit in graph.log()] == ["branch_merge", "insert", "load_append", "init"]
        assert graph.log(limit=1).next_page()[0] == graph.log()[1]
        assert graph.log()[-1] == graph.log()[3] == graph.get_commit(str(graph.log()[3].id))
        blamed = graph.blame("Person", "bo", limit=1)
        assert [event.changed for event in blamed.events] == [("age",)]
        brought = graph.log(full=True)[1]
        assert (brought.actor, str(brought.branch)) == ("mira", "review")
        assert [(one.name, one.author, one.merge) for one in blamed.properties if one.author] == [
            ("age", brought, graph.log()[0])
        ]
        assert graph.get_commit(brought.id) == brought
        assert graph.at(brought.id).query(NAMES).rows()[1]["p.age"] == 8
        assert [line[:3] for line in graph.log(full=True, limit=3).draw().splitlines()] == [
            "*  ",
            "|\\",
            "| *",
            "|/",
            "*  ",
        ]
        (batch,) = graph.feed("beginning", types=["Person"])
        assert [len(block.changes) for block in batch.blocks] == [1, 2, 1]
        assert list(graph.feed(batch.token, types=["Person"])) == []
        assert graph.commit_changes(graph.log()[0]).block.changes[0].id == "bo"

        then = graph.at("tag:v1")
        assert then.query(NAMES).rows()[1]["p.age"] == 7
        assert graph.revert(graph.log()[0]).commit.operation == "revert"
        assert list(graph.diff(then)) == []

        assert graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32? nick: String?")).applied
        assert "nick" in str(graph.schema)
        assert "nick" not in str(then.schema)
        assert then.export(tmp_path / "out", "parquet", types=["Person"]).rows == 3
        sink = io.BytesIO()
        assert graph.export_stream(sink).rows == sink.getvalue().count(b"\n") == 3

        assert graph.optimize(["Person"]).tables[0].table_key == "node:Person"
        assert graph.status().branches == 1
        assert graph.repair().manifest_version is None
        assert not graph.cleanup(keep=1).is_done
        assert graph.migrate(preview=True).outdated == graph.migrate().migrated == ()
        assert "scan" in str(graph.explain(NAMES))
        assert graph.delete_tag("v1").commit_id == then.commit.id
        assert graph.tags() == ()


def test_states_stay_as_they_are_while_branches_go_on(tmp_path):
    with make(tmp_path) as graph:
        empty = graph.at("main")
        graph.mutate(ADD, {"name": "ann", "age": 1})
        side = graph.create_branch("side", at=empty)
        side.mutate(ADD, {"name": "ann", "age": 2})
        assert (names(empty), names(graph), names(graph.at("~1")), names(side.at("~"))) == ([], ["ann"], [], [])
        with pytest.raises(MergeConflictsError):
            graph.merge(side)
        assert graph.merge(side, resolve="theirs").commit is not None
        assert graph.query(NAMES).rows() == [{"p.name": "ann", "p.age": 2}]
        with pytest.raises(PreconditionFailedError):
            graph.mutate(ADD, {"name": "bo", "age": 1}, expected_head=empty.commit)


def test_conflicts_are_decided_by_a_mapping_or_a_function(tmp_path):
    schema = "node Person { name: String @key  age: I32?  city: String? }"
    with omnigraph.init(tmp_path / "g", schema) as graph:
        graph.mutate('query q() { insert Person { name: "ann", age: 1, city: "a" } }')
        side = graph.create_branch("side")
        for one, age, city in ((graph, 2, "b"), (side, 3, "c")):
            text = 'query q($a: I32, $c: String) { update Person set { age: $a, city: $c } where name = "ann" }'
            one.mutate(text, {"a": age, "c": city})
        asked = []

        def decide(row):
            asked.append((row.type, row.id, row.property, row.base, row.ours, row.theirs))
            return max(row.ours, row.theirs) if row.property == "age" else None

        assert [row.property for row in graph.preview_merge(side, resolve=decide).conflicts.rows()] == ["city"]
        assert asked == [("node:Person", "ann", "age", 1, 2, 3), ("node:Person", "ann", "city", "a", "b", "c")]
        with pytest.raises(MergeConflictsError):
            graph.merge(side, resolve=decide)
        with pytest.raises(UsageError):
            graph.merge(side, resolve="ours", rest="ours")
        assert graph.preview_merge(side, resolve={("Person", "ann", "city"): "base"}, rest="ours").conflicts == ()
        assert graph.merge(side, resolve=decide, rest="ours").tables[0].resolved == 1
        shown = graph.query("query q() { match { $p: Person } return { $p.age, $p.city } }").rows()
        assert shown == [{"p.age": 3, "p.city": "b"}]
        undone = graph.log()[0]
        graph.mutate('query q() { update Person set { age: 9 } where name = "ann" }')
        graph.revert(undone, resolve=lambda row: "theirs")
        shown = graph.query("query q() { match { $p: Person } return { $p.age, $p.city } }").rows()
        assert shown == [{"p.age": 2, "p.city": "b"}]


def test_the_page_about_python_names_every_verb():
    page = (Path(__file__).parents[3] / "docs" / "user" / "python.md").read_text(encoding="utf-8")
    nouns = (omnigraph.Graph, omnigraph.Branch, omnigraph.Snapshot)
    verbs = {name for noun in nouns for name in dir(noun) if not name.startswith("_")}
    assert len(verbs) > 30
    assert {name for name in verbs if not re.search(rf"`(graph\.)?{name}\b", page)} == set()


def test_threads_share_a_graph(tmp_path):
    with make(tmp_path) as graph, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: graph.mutate(ADD, {"name": f"p{number}", "age": number}), range(8)))
        assert {tuple(found) for found in pool.map(lambda _: names(graph), range(4))} == {
            tuple(f"p{n}" for n in range(8))
        }


def test_sources_are_texts_or_files(tmp_path):
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "q.gq").write_text(NAMES)
    with omnigraph.init(str(tmp_path / "graph"), str(tmp_path / "s.pg"), settings=RELAXED) as graph:
        assert names(graph) == [] == graph.query(tmp_path / "q.gq").rows()
        for missing in (tmp_path / "none.gq", Path("-")):
            with pytest.raises(FileMissingError, match="was not found"):
                graph.query(missing)
        with pytest.raises(UsageError, match="<query> must be text"):
            graph.query(5)  # type: ignore[arg-type]  # the mistake itself
        with pytest.raises(WrongQueryKindError):
            graph.query(ADD)
        with pytest.raises(UsageError, match="a value of type int is not a reference to a state"):
            graph.at(5)  # type: ignore[arg-type]  # the mistake itself
        with pytest.raises(UsageError, match="cannot load from a value of type NoneType"):
            graph.load(None)  # type: ignore[arg-type]  # the mistake itself
    for wrong, error in [
        ("none.pg", FileMissingError),
        ("-", SchemaSyntaxError),
        ("node {", SchemaSyntaxError),
        (None, UsageError),
    ]:
        with pytest.raises(error):
            omnigraph.init(tmp_path / "other", wrong)  # type: ignore[arg-type]  # the mistake itself
    with pytest.raises(GraphMissingError):
        omnigraph.open(tmp_path / "other")


def test_a_graph_follows_another_one(tmp_path):
    with make(tmp_path) as graph, omnigraph.init(tmp_path / "copy", SCHEMA, settings=RELAXED) as copy:
        graph.mutate(ADD, {"name": "ann", "age": 7})
        graph.mutate('query k() { insert Knows { from: "ann", to: "ann", since: date("2020-01-02") } }')
        feed = graph.feed("beginning", limits=omnigraph.PageLimits(changes=1))
        done = copy.apply(feed, actor="mira", message="as told")
        assert (done.written, done.commits, done.commit.actor, done.commit.message) == (2, 2, "mira", "as told")
        assert list(copy.baseline()) == list(graph.baseline())
        assert [one.token for one in copy.applied_feeds()] == [feed.token]
        assert list(copy.branch("main").feed("now")) == []


def test_a_change_log_is_applied_and_a_batch_of_it_once(tmp_path):
    log = tmp_path / "log.jsonl"
    with make(tmp_path) as graph:
        lines = [{"type": "Person", "_seq": seq, "data": {"name": "ann", "age": seq}} for seq in (2, 1)]
        lines.append({"type": "Person", "_op": "delete", "_seq": 3, "data": {"name": "bo"}})
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = graph.load(log, "apply", batch=("people", 1), on_delete="refuse")
        assert (done.changes.rows, done.changes.written, done.changes.unchanged, done.changes.superseded) == (
            3,
            1,
            1,
            1,
        )
        again = graph.load(log, "apply", batch=("people", 1))
        assert (again.commit, again.is_repeat, done.is_repeat) == (done.commit, True, False)
        # Another stream changes no row here, and remembers the sequences all the same.
        other = graph.load(log, "apply")
        assert (other.changes.unchanged, other.commit.touched) == (2, ())
        assert graph.load(log, "apply").commit is None
        with graph.transaction() as transaction:
            log.write_text('{"type": "Person", "_op": "delete", "data": {"name": "ann"}}\n')
            assert transaction.load(log, "apply").changes.deleted == 1
        assert names(graph) == []


def test_what_is_closed_or_read_only_says_so(tmp_path):
    with make(tmp_path) as graph:
        pass
    with pytest.raises(GraphClosedError):
        names(graph)
    with omnigraph.open(graph.uri, mode="read_only") as reading:
        assert (reading.mode, names(reading)) == ("read_only", [])
        with pytest.raises(ReadOnlyError):
            reading.mutate(ADD, {"name": "ann", "age": None})
        with pytest.raises(UsageError, match="cannot be pickled or copied"):
            pickle.dumps(reading)
    with pytest.raises(UsageError, match=r"mode must be .* not 'append'"):
        omnigraph.open(graph.uri, mode="append")  # type: ignore[arg-type]  # the mistake itself


def test_folders_of_tables_are_called_like_their_types_were_when_they_were_made(tmp_path):
    with make(tmp_path) as graph:
        graph.mutate(ADD, {"name": "ann", "age": 7})
        made = {path.name for kind in ("nodes", "edges") for path in (tmp_path / "graph" / kind).iterdir()}
        assert sorted(name.partition("-")[0] for name in made) == ["Knows", "Person"]
        graph.apply_schema(SCHEMA.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")'))
        assert graph.query("query q() { match { $p: Human } return { $p.name } }").rows() == [{"p.name": "ann"}]
        assert {path.name for kind in ("nodes", "edges") for path in (tmp_path / "graph" / kind).iterdir()} == made
