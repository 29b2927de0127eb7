"""What change logs remember between calls: late rows, deletes, streams, branches, reverts, other writers, cleanups."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.load.sequences import NEVER, SequenceReader
from omnigraph.errors import BadRowsError, Effect, OmnigraphError, StorageCorruptError
from omnigraph.store.location import Storage
from omnigraph.store.sequence_runs import RUN_COLUMNS, SequencePlace, highest, run_key
from omnigraph.txn.manifest.sequences import SequenceRun
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = "query q() { match { $p: Person } return { $p.name $p.age } order { $p.name } }"
PAIRS = "query q() { match { $p: Person $p knows $q } return { $p.name $q.name } order { $p.name, $q.name } }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA) as opened:
        yield opened


@pytest.fixture
def apply(graph, tmp_path):
    """Apply rows to a branch, and return what became of them."""

    def run(*rows, on=None, **options):
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return (on or graph).load(path, "apply", **options)

    return run


def person(name, seq, age=None, op="upsert"):
    return {"type": "Person", "_op": op, "_seq": seq, "data": {"name": name} | ({} if age is None else {"age": age})}


def gone(name, seq):
    return person(name, seq, op="delete")


def knows(edge_id, src, dst, seq):
    marks = {} if seq is None else {"_seq": seq}
    return {"edge": "Knows", "from": src, "to": dst, **marks, "data": {"id": edge_id}}


def people(state):
    return {row["p.name"]: row["p.age"] for row in state.query(PEOPLE).to_arrow().to_pylist()}


def pairs(state):
    return ["".join(row.values()) for row in state.query(PAIRS).to_arrow().to_pylist()]


def told(result):
    counts = result.changes
    assert counts.rows == counts.written + counts.unchanged + counts.superseded + counts.deleted + counts.quarantined
    return counts.written, counts.unchanged, counts.superseded, counts.deleted


def engine_of(graph):
    return graph._backend.engine


def known(graph, stream=""):
    return engine_of(graph).snapshot("main").state.sequences[stream]


def test_a_row_with_a_lower_sequence_than_an_earlier_call_does_not_count(graph, apply):
    assert told(apply(person("a", 20, age=2))) == (1, 0, 0, 0)
    late = apply(person("a", 10, age=1))
    assert (told(late), late.commit) == ((0, 0, 1, 0), None)
    assert told(apply(person("a", 19, op="delete"), person("b", 1), person("a", 21, age=3))) == (2, 0, 1, 0)
    assert people(graph) == {"a": 3, "b": None}


def test_a_deleted_entity_is_not_brought_back_by_a_late_row(graph, apply):
    apply(person("a", 1, age=1))
    apply(gone("a", 5), gone("never", 7))
    assert told(apply(person("a", 4), person("never", 6))) == (0, 0, 2, 0)
    assert people(graph) == {}
    assert told(apply(person("a", 6, age=6))) == (1, 0, 0, 0)


def test_a_row_that_comes_with_the_sequence_of_its_entity_is_not_late(graph, apply):
    apply(person("a", 5, age=1))
    again = apply(person("a", 5, age=1))
    assert (told(again), again.commit) == ((0, 1, 0, 0), None)
    assert told(apply(person("a", 5, age=2))) == (1, 0, 0, 0)
    assert people(graph) == {"a": 2}


def test_a_row_that_changes_nothing_counts_against_later_ones(graph, apply):
    apply(person("a", 5, age=1))
    same = apply(person("a", 9, age=1))
    assert (told(same), same.commit is None) == ((0, 1, 0, 0), False)
    assert told(apply(person("a", 7, age=7))) == (0, 0, 1, 0)
    assert people(graph) == {"a": 1}


def test_an_edge_older_than_a_delete_of_a_node_stays_away_although_the_node_is_back(graph, apply):
    apply(person("a", 1), person("b", 1))
    apply(gone("a", 5))
    apply(person("a", 7))
    assert told(apply(knows("e", "a", "b", 4))) == (0, 0, 1, 0)
    assert pairs(graph) == []
    apply(knows("e", "a", "b", 5))
    assert pairs(graph) == ["ab"]


def test_a_late_delete_of_a_node_takes_the_edges_that_are_older(graph, apply):
    apply(person("a", 6), person("b", 1), person("c", 1), person("d", 1))
    apply(knows("e1", "a", "b", 3), knows("e2", "c", "a", 5), knows("e3", "b", "c", 2))
    apply(knows("e4", "a", "d", None))
    late = apply(gone("a", 4))
    assert (told(late), late.changes.cascaded) == ((0, 0, 1, 0), 2)
    # An edge without a sequence was there before any delete.
    assert (sorted(people(graph)), pairs(graph)) == (["a", "b", "c", "d"], ["bc", "ca"])
    apply(knows("e4", "a", "d", None))
    again = apply(gone("a", 4))
    assert (again.changes.cascaded, again.commit) == (0, None)
    assert pairs(graph) == ["ad", "bc", "ca"]


def test_an_edge_with_late_rows_only_goes_with_its_node(graph, apply):
    apply(person("a", 1), person("b", 1), knows("e", "a", "b", 5))
    late = apply(knows("e", "a", "b", 3), gone("a", 6), person("a", 7))
    assert (told(late), late.changes.cascaded) == ((0, 1, 2, 0), 1)
    assert (sorted(people(graph)), pairs(graph)) == (["a", "b"], [])


def test_streams_remember_apart(graph, apply):
    apply(person("a", 20, age=2), batch=("one", 1))
    apply(person("a", 10, age=1), batch=("two", 1))
    assert people(graph) == {"a": 1}
    assert told(apply(person("a", 15, age=3), batch=("one", 2))) == (0, 0, 1, 0)
    assert told(apply(person("a", 11, age=4), batch=("two", 2))) == (1, 0, 0, 0)


def test_sequences_of_another_kind_than_before_are_refused_and_change_nothing(graph, apply):
    apply(person("a", 20, age=2))
    version = engine_of(graph).snapshot("main").state.version
    with pytest.raises(
        BadRowsError, match="the row has an instant, rows of Person in earlier calls a number"
    ) as caught:
        apply(person("b", "2026-01-01T00:00:00Z"))
    assert caught.value.details.items[0].line == 1
    assert people(graph) == {"a": 2}
    assert engine_of(graph).snapshot("main").state.version == version
    apply(person("b", "2026-01-01T00:00:00Z"), batch=("other", 1))
    assert sorted(people(graph)) == ["a", "b"]


def test_with_refuse_deletes_leave_edges_of_later_calls_alone(graph, apply):
    apply(person("a", 1), person("b", 1))
    apply(gone("a", 5), on_delete="refuse")
    apply(person("a", 7), knows("e", "a", "b", 4), on_delete="refuse")
    assert pairs(graph) == ["ab"]


def test_calls_of_a_transaction_see_what_the_ones_before_them_applied(graph, tmp_path):
    def log(*rows):
        (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / "log.jsonl"

    with graph.transaction() as transaction:
        transaction.load(log(person("a", 5, age=5), gone("b", 5)), "apply")
        assert told(transaction.load(log(person("a", 4, age=4), person("b", 4)), "apply")) == (0, 0, 2, 0)
    assert people(graph) == {"a": 5}
    assert told(graph.load(log(person("b", 3)), "apply")) == (0, 0, 1, 0)


def test_two_writers_of_a_stream_at_once_are_both_remembered(graph, apply, monkeypatch, tmp_path):
    apply(person("a", 1), person("b", 1))
    writer = engine_of(graph).store.branch_writer(BranchName(MAIN))
    commit, waiting = writer.commit, [[gone("a", 5), person("c", 9)]]

    def first_the_other(txn):
        if waiting:
            path = tmp_path / "other.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in waiting.pop()))
            graph.load(path, "apply")
        return commit(txn)

    monkeypatch.setattr(writer, "commit", first_the_other)
    assert told(apply(person("a", 4), person("b", 8, age=8), person("c", 3))) == (1, 0, 2, 0)
    assert people(graph) == {"b": 8, "c": None}
    assert told(apply(person("a", 4), person("b", 7), person("c", 8))) == (0, 0, 3, 0)


def test_threads_that_apply_pieces_of_one_shuffled_log_give_the_graph_of_all_rows(graph, tmp_path):
    random = Random(3)  # noqa: S311 - a seeded generator is what makes the run repeatable
    log = [
        person(f"p{random.randrange(20)}", at, age=at, op="delete" if random.random() < 0.2 else "upsert")
        for at in range(240)
    ]
    newest = {row["data"]["name"]: row for row in log}
    random.shuffle(log)

    def work(number):
        for piece in range(number, 12, 4):
            path = tmp_path / f"{piece}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in log[piece::12]))
            told(graph.load(path, "apply"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert people(graph) == {name: row["data"]["age"] for name, row in sorted(newest.items()) if row["_op"] == "upsert"}


def test_a_renamed_type_keeps_what_is_remembered_and_a_new_one_has_nothing(graph, apply):
    apply(person("a", 9, age=1))
    graph.apply_schema(
        SCHEMA.replace("node Person", 'node Human @rename_from("Person")')
        .replace("Person ->", "Human ->")
        .replace("-> Person", "-> Human")
    )

    def human(name, seq):
        return {"type": "Human", "_seq": seq, "data": {"name": name}}

    assert told(apply(human("a", 8))) == (0, 0, 1, 0)
    assert told(apply(human("a", 10))) == (1, 0, 0, 0)


def test_a_revert_whose_history_is_gone_leaves_everything_remembered(graph, apply, tmp_path):
    apply(person("a", 5, age=5))
    undone = apply(person("a", 9, age=9))
    for number in range(8):
        apply(person(f"n{number}", 50))
    # What later commits added is one run by now; a cleanup may have removed the others.
    for file in (tmp_path / "g" / "__sequences").iterdir():
        if file.stem not in known(graph).names:
            file.unlink()
    before = known(graph)
    graph.revert(undone.commit)
    assert (known(graph), people(graph)["a"]) == (before, 5)
    assert told(apply(person("a", 8))) == (0, 0, 1, 0)
    assert told(apply(person("a", 9, age=9), person("n0", 49))) == (1, 0, 1, 0)


def test_a_branch_starts_with_what_is_remembered_and_a_merge_joins_both(graph, apply):
    apply(person("a", 10), person("b", 1), person("c", 1))
    draft = graph.create_branch("draft")
    assert told(apply(person("a", 9), on=draft)) == (0, 0, 1, 0)
    apply(gone("b", 20), on=draft)
    apply(gone("c", 30))
    assert told(apply(person("b", 15, age=1))) == (1, 0, 0, 0)
    apply(person("b", 1), batch=("other", 1))
    graph.merge("draft", resolve="theirs")
    assert people(graph) == {"a": None}
    assert told(apply(person("a", 9), person("b", 19), person("c", 29))) == (0, 0, 3, 0)


def test_a_revert_takes_back_what_its_commit_made_remembered(graph, apply):
    apply(person("a", 5, age=5), person("b", 1))
    undone = apply(person("a", 9, age=9), gone("b", 9))
    for number in range(8):
        apply(person(f"n{number}", 50))
    graph.revert(undone.commit)
    assert {name: age for name, age in people(graph).items() if name in "ab"} == {"a": 5, "b": None}
    # Of the undone rows nothing is known, of earlier and of later ones everything.
    late = [person("a", 4), *(person(f"n{number}", 49) for number in range(8))]
    assert told(apply(*late)) == (0, 0, 9, 0)
    assert told(apply(person("a", 7, age=7), person("b", 8, age=8))) == (2, 0, 0, 0)
    assert told(apply(person("a", 9, age=9), gone("b", 9))) == (1, 0, 0, 1)


def test_a_stream_of_which_everything_is_reverted_may_go_on_with_another_kind(graph, apply):
    first = apply(person("a", 5))
    graph.revert(first.commit)
    assert told(apply(person("a", "2026-01-01T00:00:00Z"))) == (1, 0, 0, 0)


def test_the_revert_of_a_revert_brings_back_what_was_remembered(graph, apply):
    apply(person("a", 5, age=5))
    first = apply(person("a", 9, age=9))
    back = graph.revert(first.commit)
    apply(person("b", 5))
    graph.revert(back.commit)
    assert people(graph) == {"a": 9, "b": None}
    assert told(apply(person("a", 8), person("b", 4))) == (0, 0, 2, 0)


def test_however_many_calls_come_a_few_runs_hold_what_they_applied_and_none_is_lost(graph, apply):
    most = 0
    for number in range(40):
        apply(person(f"p{number}", 100 + number), person("all", number))
        most = max(most, len(known(graph).runs))
    assert most <= 6
    assert sum(run.rows for run in known(graph).runs) < 100
    late = [person(f"p{number}", 99 + number) for number in range(40)]
    assert told(apply(*late, person("all", 38))) == (0, 0, 41, 0)


def test_a_cleanup_removes_runs_that_no_state_names_and_keeps_the_others(graph, apply, tmp_path):
    for number in range(20):
        apply(person(f"p{number}", 10))
    place = tmp_path / "g" / "__sequences"
    stray = place / "01STRAY.parquet"
    stray.write_bytes(b"x")
    for file in place.iterdir():
        old = file.stat().st_mtime - 30 * 86400
        os.utime(file, (old, old))
    before = len(list(place.iterdir()))
    graph.cleanup(keep=1, dry_run=False)
    left = {file.stem for file in place.iterdir()}
    assert not stray.exists()
    assert known(graph).names <= left
    assert len(left) < before
    assert told(apply(*(person(f"p{number}", 9) for number in range(20)))) == (0, 0, 20, 0)


def test_a_call_that_cannot_write_its_run_changes_nothing_and_says_so(graph, apply, tmp_path):
    blocked = tmp_path / "g" / "__sequences"
    blocked.write_text("in the way")
    with pytest.raises(OmnigraphError) as caught:
        apply(person("a", 5))
    assert (caught.value.effect, people(graph)) == (Effect.STAGED, {})
    blocked.unlink()
    assert told(apply(person("a", 5))) == (1, 0, 0, 0)


def test_a_large_run_is_read_in_the_parts_that_can_tell_of_the_entities(tmp_path):
    (tmp_path / "g").mkdir()
    place = SequencePlace(storage=Storage.open(str(tmp_path / "g")), is_durable=False)
    count = 50_000
    names = [f"k{number:06}" for number in range(count)]
    rows = pa.table([["t"] * count, [1] * count, names, list(range(count)), [None] * count], RUN_COLUMNS)
    other = pa.table([["u", "t"], [1, 2], ["k000001", "k000001"], [70, 80], [3, None]], RUN_COLUMNS)
    place.write("large", highest([rows, other]))
    reader = SequenceReader(
        place=place, runs=(SequenceRun(name="large", rows=count + 2),), tables={"node:T": "t", "node:U": "u"}
    )
    asked = pa.array(["k000001", "none", "k049999"])
    assert reader.known("node:T", 1, asked).seqs.tolist() == [1, NEVER, 49_999]
    assert reader.known("node:U", 1, asked).died.tolist() == [3, NEVER, NEVER]
    assert [part.num_rows for part in place.find("large", count + 2, "t", asked.slice(0, 1))] == [1 << 14]
    assert sum(part.num_rows for part in place.find("large", count + 2, "t", pa.array(["a"]))) == 0
    (tmp_path / "g" / run_key("large")).unlink()
    with pytest.raises(StorageCorruptError, match="missing"):
        reader.known("node:T", 1, asked)
