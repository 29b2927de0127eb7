"""The version of an entity is the commit that last changed it, and a statement can insist on it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.engine.versions import EntityVersions, known_versions
from omnigraph.errors import EntityChangedError, QueryTypeError
from omnigraph.ir import compile_query
from omnigraph.txn.refs import RefResolver

SCHEMA = """
interface Named { name: String? }
node Person implements Named { slug: String @key  name: String?  age: I64? }
node Note { text: String? }
edge Knows: Person -> Person { since: I64? }
"""
READ = "query q() { match { $p: Person } return { $p.slug as slug, version($p) as version } }"


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA)
    with open_session(tmp_path / "graph") as opened:
        yield opened


def put(session, slug, age, **options):
    text = "query q($s: String, $a: I64) { insert Person { slug: $s, age: $a } }"
    return str(session.mutate(text, {"s": slug, "a": age}, **options).commit.id)


def rows_of(session, text, **options):
    return session.query(text, **options).to_arrow().to_pylist()


def versions(session, **options):
    return {row["slug"]: row["version"] for row in rows_of(session, READ, **options)}


def blamed(session, slug, **options):
    (event,) = session.blame("Person", slug, limit=1, **options).events
    return str(event.cause.commit.id)


def assert_as_blamed(session, branch="main"):
    found = versions(session, branch=branch)
    assert found == {slug: blamed(session, slug, branch=branch) for slug in found}


def test_a_version_is_the_commit_that_wrote_the_entity_last(session):
    first, second = put(session, "a", 1), put(session, "b", 1)
    assert versions(session) == {"a": first, "b": second}
    third = put(session, "a", 2)
    assert versions(session) == {"a": third, "b": second}


def test_writing_the_same_values_again_changes_no_version(session):
    first = put(session, "a", 1)
    put(session, "a", 1)
    assert versions(session) == {"a": first}


def test_versions_outlive_folding_and_compaction(session):
    written = {}
    for number in range(45):
        slug = f"s{number * 7 % 20}"
        written[slug] = put(session, slug, number)
    assert versions(session) == written
    session.optimize()
    assert versions(session) == written
    written["s3"] = put(session, "s3", 100)
    assert versions(session) == written


def test_versions_on_branches_are_those_of_their_own_history(session):
    base = {slug: put(session, slug, 1) for slug in "abc"}
    session.create_branch("work")
    moved = put(session, "a", 2, branch="work")
    mine = put(session, "b", 2)
    assert versions(session, branch="work") == base | {"a": moved}
    session.merge("work")
    merged = str(session.snapshot().state.head.commit)
    assert versions(session) == base | {"a": merged, "b": mine}
    assert_as_blamed(session)


def test_versions_follow_loads_schema_changes_and_the_past(session, tmp_path):
    first = {slug: put(session, slug, 1) for slug in "ab"}
    rows = [{"slug": "a", "age": 1}, {"slug": "c", "age": 1}]
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(json.dumps({"type": "Person", "data": row}) for row in rows))
    loaded = str(session.load([str(source)], "merge").commit.id)
    assert versions(session) == first | {"c": loaded}
    session.apply_schema(SCHEMA.replace("age: I64?", "age: I64?  town: String?"))
    assert versions(session) == first | {"c": loaded}
    changed = put(session, "a", 5)
    assert versions(session) == first | {"c": loaded, "a": changed}
    assert versions(session, at=loaded) == first | {"c": loaded}


def test_edges_and_entities_of_an_interface_have_versions(session):
    put(session, "a", 1)
    put(session, "b", 1)
    made = session.mutate('query q() { insert Knows { from: "a", to: "b" } }').commit.id
    assert rows_of(session, "query q() { match { $p $e:knows $f } return { version($e) as v } }") == [{"v": made}]
    found = rows_of(session, "query q() { match { $x: Named } return { id($x) as slug, version($x) as version } }")
    assert {row["slug"]: row["version"] for row in found} == versions(session)


class CountedHistory:
    """A history that counts which states are opened."""

    def __init__(self, refs: RefResolver) -> None:
        self._refs = refs
        self.opened: list[int] = []

    def line_of(self, snapshot):
        return self._refs.line_of(snapshot)

    def snapshot_of(self, commit):
        self.opened.append(commit.manifest_version)
        return self._refs.snapshot_of(commit)


def test_a_read_of_versions_opens_few_states_once(session):
    """Each version of a table is looked for once, by doubling and halving steps, and remembered."""
    for number in range(60):
        put(session, f"s{number % 30}", number)
    snapshot, known = session.snapshot(), known_versions()
    history = CountedHistory(session.store.refs)
    ids = pa.array([f"s{number}" for number in range(30)])
    found = EntityVersions(history, snapshot, known).find("node:Person", ids).to_pylist()
    assert len(set(found)) == 30
    assert len(history.opened) == len(set(history.opened)) <= 62
    again = CountedHistory(session.store.refs)
    assert EntityVersions(again, snapshot, known).find("node:Person", ids[-1:]).to_pylist() == found[-1:]
    assert len(again.opened) <= 2


def test_one_bulk_insert_needs_no_earlier_state(session):
    put(session, "old", 1)
    rows = [{"s": f"n{number}", "a": number} for number in range(300)]
    text = "query q($s: String, $a: I64) { insert Person { slug: $s, age: $a } }"
    made = str(session.mutate_batch(text, rows).commit.id)
    history = CountedHistory(session.store.refs)
    lookup = EntityVersions(history, session.snapshot(), known_versions())
    assert set(lookup.find("node:Person", pa.array([row["s"] for row in rows])).to_pylist()) == {made}
    assert len(history.opened) <= 2


def test_behind_cleanup_old_entities_are_at_the_oldest_commit_that_is_kept(session):
    put(session, "a", 1)
    for number in range(4):
        put(session, "b", number)
    session.cleanup(keep=2, confirm=True)
    kept = versions(session)
    oldest = [str(commit.id) for commit in session.log(limit=10).commits][:3]
    assert kept["b"] == oldest[0]
    assert kept["a"] in oldest
    done = update(session, "a", kept["a"])
    assert versions(session)["a"] == str(done.commit.id)


def update(session, slug, version, **options):
    text = "query q($s: String, $v: String) { update Person set { age: 99 } where slug = $s if version = $v }"
    return session.mutate(text, {"s": slug, "v": version}, **options)


def test_a_guarded_update_wins_once(session):
    first = put(session, "a", 1)
    done = update(session, "a", first)
    assert versions(session) == {"a": str(done.commit.id)}
    with pytest.raises(EntityChangedError) as caught:
        update(session, "a", first)
    details = caught.value.details
    assert (details.table_key, details.id) == ("node:Person", "a")
    assert (details.expected, details.actual) == (first, str(done.commit.id))
    assert caught.value.code == "write.version"
    assert versions(session) == {"a": str(done.commit.id)}


@pytest.mark.parametrize(
    "statement",
    [
        'update Person set { age: 9 } where slug = "a" if version = $v',
        'delete Person where slug = "a" if version = $v',
        'match { $p: Person { slug: "a" } } update $p set { age: 9 } if version = $v',
        'match { $p: Person { slug: "a" } } delete $p if version = $v',
        "match { $p $e:knows $f } update $e set { since: 9 } if version = $v",
        "match { $p $e:knows $f } delete $e if version = $v",
        'delete Knows where from = "a" and to = "b" if version = $v',
    ],
)
def test_every_statement_that_changes_what_is_there_can_be_guarded(session, statement):
    text = f"query q($v: String) {{ {statement} }}"
    put(session, "a", 1)
    put(session, "b", 1)
    edge = str(session.mutate('query q() { insert Knows { from: "a", to: "b" } }').commit.id)
    node = versions(session)["a"]
    before = session.snapshot().state.head.commit
    with pytest.raises(EntityChangedError):
        session.mutate(text, {"v": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
    assert session.snapshot().state.head.commit == before
    done = session.mutate(text, {"v": edge if "nows" in statement else node})
    assert done.updated + done.deleted >= 1


def test_a_guard_without_an_entity_is_lost(session):
    first = put(session, "a", 1)
    session.mutate('query q() { delete Person where slug = "a" }')
    with pytest.raises(EntityChangedError, match="no matching Person is at version") as caught:
        update(session, "a", first)
    assert caught.value.details.actual is None


def test_a_guard_is_about_the_state_that_the_mutation_runs_on(session):
    """A statement before it, of the same mutation, changes no version."""
    first = put(session, "a", 1)
    text = """query q($v: String) {
        update Person set { age: 2 } where slug = "a" if version = $v
        update Person set { name: "A" } where slug = "a" if version = $v
    }"""
    assert session.mutate(text, {"v": first}).updated == 2
    with pytest.raises(EntityChangedError, match="is not stored yet"):
        session.mutate(
            'query q() { insert Person { slug: "n" } update Person set { age: 1 } where slug = "n" if version = "x" }'
        )


def test_a_version_can_be_tested_in_the_match_of_a_mutation(session):
    first = put(session, "a", 1)
    put(session, "b", 1)
    text = "query q($v: String) { match { $p: Person version($p) = $v } update $p set { age: 7 } }"
    assert session.mutate(text, {"v": first}).updated == 1
    assert session.mutate(text, {"v": first}).updated == 0


def test_rows_of_a_batch_are_guarded_one_by_one(session):
    first, second = put(session, "a", 1), put(session, "b", 1)
    text = "query q($s: String, $v: String) { update Person set { age: 5 } where slug = $s if version = $v }"
    with pytest.raises(EntityChangedError):
        session.mutate_batch(text, [{"s": "a", "v": first}, {"s": "b", "v": first}])
    assert versions(session) == {"a": first, "b": second}
    assert session.mutate_batch(text, [{"s": "a", "v": first}, {"s": "b", "v": second}]).updated == 2


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('update Person set { age: 1 } where slug = "a" if version = 3', "a version is a text or a parameter"),
        ('update Person set { age: 1 } where slug = "a" if version = slug', "a version is a text or a parameter"),
        ('update Person set { age: 1 } where slug = "a" if version = null', "a version is a text or a parameter"),
        ('update Person set { age: 1 } where slug = "a" if version = $maybe', "a version is a text or a parameter"),
        ('match { $p $e:knows $f } delete $p, $f if version = "x"', "one variable"),
        ("match { $p: Person } update $p set { name: version($p) }", "has no value in a statement"),
        ("match { $p: Person } update $p set { age: 1 } return { version($p) }", "has no value in a statement"),
    ],
)
def test_guards_that_mean_nothing_are_refused(session, statement, message):
    with pytest.raises(QueryTypeError, match=message):
        compile_query(f"query q($maybe: String?) {{ {statement} }}", None, session.catalog())
