"""A mutation, a batch or a load that loses a race is run again on the new state, unless its caller refuses that."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from tests.session_graph import RELAXED, create_graph, open_session, read_graph

from omnigraph.engine.embedding.providers import MockProvider
from omnigraph.errors import (
    BadRowsError,
    ClaimBusyError,
    Effect,
    ExpectedVersionMismatchError,
    PreconditionFailedError,
    Retry,
    SchemaMovedError,
    UsageError,
)
from omnigraph.runtime import ManualClock, Runtime
from omnigraph.runtime.failpoints import on_nth
from omnigraph.values.temporal import parse_datetime

SCHEMA = """
node Person { name: String @key  age: I32?  seen: DateTime?  face: Blob? }
node Team { code: String @key }
node Note { text: String  state: String }
node Doc { slug: String @key  text: String  vec: Vector(4) @embed("text") }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "Ann", "age": 34}}
{"type": "Person", "data": {"name": "Bo", "age": 28}}
{"edge": "Knows", "from": "Ann", "to": "Bo", "data": {"id": "k1"}}
"""
RAISE_ALL = "query q() { update Person set { age: 1 } where age > 20 }"
# What a write passes after it has made up its mind and before it claims a version.
DECIDED = "txn.stage.after_files"


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    return tmp_path / "graph"


@pytest.fixture
def other(root):
    with open_session(root) as session:
        yield session


@pytest.fixture
def runtime():
    return Runtime.system({})


@pytest.fixture
def session(root, runtime):
    with open_session(root, runtime=runtime) as session:
        yield session


@pytest.fixture
def meanwhile(runtime, other):
    """Let the other graph write whenever this one has decided what to publish: the first time, or every time."""

    def arrange(*bodies, load=None):
        waiting = list(bodies)

        def act():
            if waiting:
                other.mutate(f"query q() {{ {waiting.pop(0)} }}")

        runtime.failpoints.enable(DECIDED, act if load is None else on_nth(1, load))

    return arrange


@pytest.mark.parametrize("count", [1, 3])
def test_update_that_loses_the_race_is_run_again(session, meanwhile, count):
    meanwhile(*(f'insert Person {{ name: "New{number}", age: 99 }}' for number in range(count)))
    done = session.mutate(RAISE_ALL)
    assert done.affected_nodes == 2 + count
    assert {row["age"] for row in read_graph(session)["node:Person"].values()} == {1}
    assert done.manifest_version == session.snapshot().state.version


def test_update_of_a_row_that_another_writer_changed_keeps_the_rest_of_it(session, meanwhile):
    meanwhile('update Person set { seen: datetime("2024-01-01T00:00:00Z") } where name = "Ann"')
    session.mutate('query q() { update Person set { age: 7 } where name = "Ann" }')
    found = read_graph(session)["node:Person"]["Ann"]
    assert (found["age"], found["seen"]) == (7, "2024-01-01T00:00:00.000Z")


def test_delete_takes_the_edges_that_came_meanwhile(session, meanwhile):
    meanwhile('insert Knows { from: "Bo", to: "Ann" }')
    done = session.mutate('query q() { delete Person where name = "Ann" }')
    assert (done.affected_nodes, done.affected_edges) == (1, 2)
    found = read_graph(session)
    assert (list(found["node:Person"]), found["edge:Knows"]) == (["Bo"], {})


def test_rerun_that_finds_nothing_to_do_makes_no_commit(session, meanwhile):
    meanwhile('delete Person where name = "Ann"')
    done = session.mutate('query q() { update Person set { age: 1 } where name = "Ann" }')
    assert (done.affected_nodes, done.commit) == (0, None)
    assert done.manifest_version == session.snapshot().state.version


def test_batch_is_run_again_as_a_whole(session, meanwhile):
    meanwhile('insert Person { name: "Cy", age: 1 }')
    text = "query q($old: I32, $new: I32) { update Person set { age: $new } where age = $old }"
    done = session.mutate_batch(text, [{"old": 1, "new": 2}, {"old": 2, "new": 3}, {"old": 28, "new": 29}])
    assert done.affected_nodes == 3
    assert {name: row["age"] for name, row in read_graph(session)["node:Person"].items()} == {
        "Ann": 34,
        "Bo": 29,
        "Cy": 3,
    }


def test_now_is_the_instant_of_the_run_that_was_published(root, other):
    clock = ManualClock(start_ms=parse_datetime("2030-01-01T00:00:00Z"))
    runtime = replace(Runtime.system({}), clock=clock)

    def act():
        other.mutate('query q() { update Person set { age: 1 } where name = "Ann" }')
        clock.sleep(60)

    runtime.failpoints.enable(DECIDED, on_nth(1, act))
    with open_session(root, runtime=runtime) as session:
        session.mutate('query q() { update Person set { seen: now() } where name = "Ann" }')
        assert read_graph(session)["node:Person"]["Ann"]["seen"] == "2030-01-01T00:01:00.000Z"


def test_rerun_leaves_one_row_per_insert_without_a_key(session, meanwhile):
    meanwhile('insert Person { name: "Cy" }')
    session.mutate('query q() { insert Note { text: "hi", state: "new" } update Person set { age: 1 } where age > 0 }')
    assert len(read_graph(session)["node:Note"]) == 1


def test_rerun_asks_the_embedding_provider_once(root, other):
    runtime, asked = Runtime.system({}), []

    class Counting(MockProvider):
        def embed(self, texts, **options):
            asked.append(list(texts))
            return super().embed(texts, **options)

    runtime.failpoints.enable(
        DECIDED, on_nth(1, lambda: other.mutate('query q() { insert Person { name: "Cy", age: 40 } }'))
    )
    with open_session(root, runtime=runtime, embedding=Counting()) as session:
        text = 'query q() { insert Doc { slug: "d", text: "words" } update Person set { age: 1 } where age > 20 }'
        assert session.mutate(text).affected_nodes == 4
    assert asked == [["words"]]


def test_rerun_decodes_blobs_once(session, meanwhile, monkeypatch):
    decoded, decode = [], base64.b64decode

    def counting(text, **options):
        decoded.append(text)
        return decode(text, **options)

    monkeypatch.setattr("omnigraph.engine.mutate.values.base64.b64decode", counting)
    meanwhile('insert Person { name: "Cy", age: 40 }')
    text = "query q($face: Blob) { update Person set { face: $face } where age > 20 }"
    assert session.mutate(text, {"face": b"smile"}).affected_nodes == 3
    assert len(decoded) == 1
    monkeypatch.undo()
    assert read_graph(session)["node:Person"]["Cy"]["face"] == "base64:c21pbGU="


def test_rerun_on_another_schema_compiles_the_mutation_again(session, other, meanwhile):
    meanwhile(load=lambda: other.apply_schema(SCHEMA.replace("age: I32?", "age: I32? height: I32?")))
    done = session.mutate(RAISE_ALL)
    assert done.affected_nodes == 2
    assert read_graph(session)["node:Person"]["Ann"]["age"] == 1


def test_load_is_read_again_for_another_schema(session, other, meanwhile, tmp_path):
    meanwhile(load=lambda: other.apply_schema(SCHEMA.replace("age: I32?", "age: I32? height: I32?")))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"type": "Person", "data": {"name": "Eve", "age": 3}}\n')
    assert session.load([str(rows)], "append").total == 1
    assert read_graph(session)["node:Person"]["Eve"]["height"] is None


def test_overwrite_that_loses_the_race_replaces_what_came_meanwhile(session, meanwhile, tmp_path):
    meanwhile('insert Team { code: "other" }')
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"type": "Team", "data": {"code": "mine"}}\n')
    assert session.load([str(rows)], "overwrite").total == 1
    assert list(read_graph(session)["node:Team"]) == ["mine"]


def test_patch_that_loses_the_race_keeps_what_came_meanwhile(session, meanwhile, tmp_path):
    meanwhile('update Person set { age: 50 } where name = "Ann"')
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"type": "Person", "data": {"name": "Ann", "seen": "2024-01-01T00:00:00Z"}}\n')
    session.load([str(rows)], "merge", patch=True)
    found = read_graph(session)["node:Person"]["Ann"]
    assert (found["age"], found["seen"]) == (50, "2024-01-01T00:00:00.000Z")


@pytest.mark.parametrize(("mode", "patch"), [("overwrite", False), ("merge", True)])
def test_load_with_refuse_is_refused_when_its_rows_moved(session, meanwhile, tmp_path, mode, patch):
    meanwhile('insert Person { name: "Cy" }')
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"type": "Person", "data": {"name": "Ann", "age": 3}}\n{"type": "Person", "data": {"name": "Bo"}}\n'
    )
    with pytest.raises(ExpectedVersionMismatchError):
        session.load([str(rows)], mode, patch=patch, on_conflict="refuse")
    assert sorted(read_graph(session)["node:Person"]) == ["Ann", "Bo", "Cy"]


def test_mutation_with_refuse_is_refused_and_changes_nothing(session, meanwhile):
    meanwhile('insert Person { name: "Cy", age: 99 }')
    with pytest.raises(ExpectedVersionMismatchError) as refused:
        session.mutate(RAISE_ALL, on_conflict="refuse")
    assert (refused.value.retry, refused.value.effect) == (Retry.AFTER_REFRESH, Effect.NONE)
    assert read_graph(session)["node:Person"]["Ann"]["age"] == 34


def test_batch_with_refuse_is_refused(session, meanwhile):
    meanwhile('insert Person { name: "Cy", age: 99 }')
    with pytest.raises(ExpectedVersionMismatchError):
        session.mutate_batch(RAISE_ALL, [{}, {}], on_conflict="refuse")


def test_mutation_with_refuse_is_refused_when_the_schema_moved(session, other, meanwhile):
    meanwhile(load=lambda: other.apply_schema(SCHEMA.replace("age: I32?", "age: I32? height: I32?")))
    with pytest.raises(SchemaMovedError):
        session.mutate(RAISE_ALL, on_conflict="refuse")


def test_expected_head_is_never_run_again(session, meanwhile):
    head = session.snapshot().state.head.commit
    meanwhile('insert Person { name: "Cy", age: 99 }')
    with pytest.raises(PreconditionFailedError):
        session.mutate(RAISE_ALL, expected_head=head)
    assert read_graph(session)["node:Person"]["Ann"]["age"] == 34


@pytest.mark.parametrize("settings", [replace(RELAXED, max_attempts=3), replace(RELAXED, rerun_s=0.0)])
@pytest.mark.parametrize("what", ["update", "patch"])
def test_write_whose_rows_never_hold_still_gives_up(root, other, tmp_path, what, settings):
    runtime, runs = Runtime.system({}), []
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"type": "Person", "data": {"name": "Ann", "seen": "2024-01-01T00:00:00Z"}}\n')

    def act():
        runs.append(None)
        other.mutate(f'query q() {{ insert Person {{ name: "New{len(runs)}", age: 99 }} }}')

    runtime.failpoints.enable(DECIDED, act)
    with open_session(root, runtime=runtime, settings=settings) as session:
        with pytest.raises(ClaimBusyError, match="kept changing what the write depends on") as busy:
            session.mutate(RAISE_ALL) if what == "update" else session.load([str(rows)], "merge", patch=True)
        assert (busy.value.retry, busy.value.effect) == (Retry.AS_IS, Effect.NONE)
        assert len(runs) == (3 if settings.rerun_s else 2)
        assert read_graph(session)["node:Person"]["Ann"] == {"name": "Ann", "age": 34, "seen": None, "face": None}


def test_rerun_reports_what_is_wrong_with_the_new_state(session, meanwhile, tmp_path):
    session.mutate('query q() { insert Doc { slug: "d", text: "x", vec: [1, 0, 0, 0] } }')
    meanwhile('delete Doc where slug = "d"')
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"type": "Doc", "data": {"slug": "d", "text": "y"}}\n')
    with pytest.raises(BadRowsError, match="vec"):
        session.load([str(rows)], "merge", patch=True)


def test_another_way_to_treat_conflicts_is_refused(session):
    with pytest.raises(UsageError, match="on_conflict"):
        session.mutate(RAISE_ALL, on_conflict="ignore")
