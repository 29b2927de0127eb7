"""Taking over the feed of another graph: each change once, whatever is repeated, cut or lost."""

from __future__ import annotations

import json
import threading

import pytest
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.errors import (
    ChangeCursorError,
    ConstraintViolationError,
    FeedBreakError,
    FeedSchemaError,
    UsageError,
)

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
edge Wrote: Person -> Note @card(0..1)
"""
TWO = omnigraph.PageLimits(changes=2)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Where graphs of this module live; each is made once."""
    return iter(tmp_path_factory.mktemp("graphs") / str(number) for number in range(100))


@pytest.fixture
def make(places):
    """Makes graphs that are closed in the end."""
    made = []

    def init(schema=SCHEMA):
        made.append(omnigraph.init(next(places), schema, settings=RELAXED))
        return made[-1]

    yield init
    for graph in made:
        graph.close()


def change(graph, *statements):
    graph.mutate(f"query q() {{ {' '.join(statements)} }}")


def person(name, **values):
    given = "".join(f", {key}: {value!r}".replace("'", '"') for key, value in values.items())
    return f'insert Person {{ name: "{name}"{given} }}'


def knows(source, target):
    return f'insert Knows {{ from: "{source}", to: "{target}" }}'


def content(graph):
    return list(graph.baseline())


def filled(graph):
    change(graph, person("ann", age=1), person("bo"), person("cy"), knows("ann", "bo"), knows("bo", "cy"))
    change(graph, 'update Person set { age: 2 } where name = "ann"', 'insert Note { text: "n" }')
    change(graph, 'delete Person where name = "bo"')
    return graph


def test_a_feed_is_applied_once_with_ids_edges_and_deletes(make):
    source, target = filled(make()), make()
    done = target.apply(source.feed("beginning", limits=TWO))
    assert content(target) == content(source)
    assert done.changes == done.written + done.deleted + done.superseded
    # A commit that spans batches is one commit there, too.
    assert [commit.operation for commit in target.log()][:-1] == ["apply_changes"] * done.commits
    before = len(target.log())
    again = target.apply(source.feed("beginning"))
    assert (again.changes, again.commit, len(target.log())) == (0, None, before)
    change(source, person("di"), knows("di", "ann"))
    assert target.apply(source.feed("beginning")).written == 2
    assert content(target) == content(source)
    (applied,) = target.applied_feeds()
    assert (applied.source, applied.token) == (source.feed("now").source, source.feed("now").token)
    assert target.log()[0].to_json()["feed"] == applied.to_json()


def test_batches_that_were_applied_are_left_out_and_a_gap_is_refused(make):
    source, target = filled(make()), make()
    batches = list(source.feed("beginning", limits=TWO))
    assert len(batches) > 4
    for batch in batches[:2]:
        target.apply(batch)
    repeated = target.apply(batches[0].to_json())
    assert (repeated.repeated, repeated.commit, repeated.token) == (2, None, batches[1].token)
    with pytest.raises(FeedBreakError) as caught:
        target.apply(batches[3])
    assert caught.value.details.token == batches[1].token
    # What overlaps is cut, inside a commit too, and the rest goes on from there.
    (whole,) = source.feed("beginning")
    done = target.apply(whole)
    assert (done.repeated, done.repeated + done.written + done.deleted + done.superseded) == (4, len(whole))
    assert content(target) == content(source)


def test_batches_may_be_applied_together_if_they_follow_each_other(make):
    source, target = filled(make()), make()
    batches = list(source.feed("beginning", limits=TWO))
    with pytest.raises(UsageError, match="do not follow each other"):
        target.apply([batches[0], batches[2]])
    # Two of the three commits are whole, and the last one is cut where the input is.
    assert [batch.end.part for batch in batches] == [2, 4, 0, 0, 2, 0]
    done = target.apply(iter(batches[:-1]))
    assert (done.commits, done.token) == (3, batches[-2].token)
    target.apply(batches)
    assert content(target) == content(source)


def test_a_part_of_a_commit_keeps_the_rules_of_the_graph(make):
    """Nodes come before edges: a batch may delete a node whose edges go with the next one."""
    source, target = make(), make()
    change(source, person("ann"), person("bo"), knows("ann", "bo"))
    target.apply(source.feed("beginning"))
    change(source, 'delete Person where name = "bo"')
    first, second = source.feed(target.applied_feeds()[0].token, limits=omnigraph.PageLimits(changes=1))
    assert [one.kind for one in (*first, *second)] == ["node", "edge"]
    assert target.apply(first).cascaded == 1
    assert [next(iter(one)) for one in content(target)] == ["type"]
    target.apply(second)
    assert content(target) == content(source)


def test_values_that_change_places_need_the_whole_commit(make):
    source, target = make(), make()
    change(source, person("ann", mail="a"), person("bo", mail="b"))
    target.apply(source.feed("beginning"))
    token = source.feed("now").token
    change(
        source,
        'update Person set { mail: "x" } where name = "ann"',
        'update Person set { mail: "a" } where name = "bo"',
        'update Person set { mail: "b" } where name = "ann"',
    )
    one = omnigraph.PageLimits(changes=1)
    with pytest.raises(ConstraintViolationError):
        target.apply(next(iter(source.feed(token, limits=one))))
    assert target.apply(source.feed(token, limits=one)).commits == 1
    assert content(target) == content(source)


def test_a_schema_that_cannot_take_the_rows_is_told_with_what_to_apply(make):
    source, target = make(), make()
    change(source, person("ann", age=1))
    newer = SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")').replace(
        "text: String", "text: String  at: Date?"
    )
    source.apply_schema(newer)
    change(source, 'update Person set { years: 5000000000 } where name = "ann"', 'insert Note { text: "n" }')
    with pytest.raises(FeedSchemaError, match="has no property 'at' of 'node:Note'") as caught:
        target.apply(source.feed("beginning"))
    # What came before the schema change is applied, and the schema of the named commit is the one that fits.
    assert [one["data"] for one in content(target)] == [{"id": "ann", "name": "ann", "age": 1, "mail": None}]
    assert f"--snapshot {caught.value.details.commit_id}" in caught.value.hint
    target.apply_schema(source.at(caught.value.details.commit_id).schema.source)
    target.apply(source.feed("beginning"))
    assert content(target) == content(source)


def test_properties_of_its_own_stay_when_a_feed_is_applied(make):
    source, target = make(), make(SCHEMA.replace("age: I32?", "age: I32?  rank: I32?"))
    change(source, person("ann", age=1))
    target.apply(source.feed("beginning"))
    change(target, 'update Person set { rank: 7 } where name = "ann"')
    change(source, 'update Person set { age: 2 } where name = "ann"', person("bo"))
    target.apply(source.feed("beginning"))
    found = {one["data"]["id"]: (one["data"]["age"], one["data"]["rank"]) for one in content(target)}
    assert found == {"ann": (2, 7), "bo": (None, None)}


def test_a_baseline_and_the_feed_behind_it_give_the_same_graph(make, tmp_path):
    source, target = filled(make()), make()
    base = source.baseline()
    change(source, person("late"), knows("late", "ann"))
    (tmp_path / "base.jsonl").write_text("".join(json.dumps(one) + "\n" for one in base))
    target.load(tmp_path / "base.jsonl")
    target.apply(source.feed(base.cursor))
    assert content(target) == content(source)


def test_feeds_of_other_graphs_and_filters_do_not_mix(make):
    first, second, target = filled(make()), make(), make()
    change(second, person("zoe"))
    target.apply(first.feed("beginning", types=["Person"]))
    target.apply(second.feed("beginning"))
    assert len(target.applied_feeds()) == 2
    assert sorted(one["data"]["id"] for one in content(target)) == ["ann", "cy", "zoe"]
    with pytest.raises(UsageError, match="comes from"):
        first.apply(first.feed("beginning"))
    # A branch of the same graph is another place.
    side = first.create_branch("side", at="~3")
    side.apply(first.feed("beginning"))
    assert list(first.diff("side", "main")) == []


def test_a_damaged_batch_is_refused(make):
    source, target = filled(make()), make()
    (batch,) = source.feed("beginning")
    good = batch.to_json()
    for wrong in ({}, {**good, "blocks": []}, {**good, "begin": {"sequence": -1, "part": 0}}, {**good, "source": 7}):
        with pytest.raises(UsageError):
            target.apply(wrong)
    with pytest.raises(ChangeCursorError):
        target.apply({**good, "token": good["token"][:-4]})
    assert target.applied_feeds() == ()


def test_two_processes_that_apply_one_feed_at_a_time_apply_it_once(make):
    source, target = filled(make()), make()
    (batch,) = source.feed("beginning")
    start, results = threading.Barrier(2), []

    def run():
        with omnigraph.open(target.uri, settings=RELAXED) as graph:
            start.wait()
            results.append(graph.apply(batch))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.commits for result in results) == [0, 1]
    assert content(target) == content(source)


def test_a_feed_that_follows_waits_for_commits_until_it_is_stopped(make):
    source = make()
    feed = source.feed("now", follow=True, interval_s=0.01)
    found, has_first = [], threading.Event()

    def read():
        for batch in feed:
            found.append([one.id for one in batch])
            has_first.set()

    thread = threading.Thread(target=read)
    thread.start()
    change(source, person("ann"))
    assert has_first.wait(300)
    feed.stop()
    thread.join()
    assert found == [["ann"]]
    change(source, person("bo"))
    assert [[one.id for one in batch] for batch in source.feed(feed.token)] == [["bo"]]


def test_a_feed_that_starts_now_begins_with_the_call(make):
    source = make()
    feed = source.feed("now")
    change(source, person("ann"), person("bo"))
    batches = list(source.feed(feed.token, limits=omnigraph.PageLimits(changes=1)))
    assert [len(batch) for batch in batches] == [1, 1]
    assert batches[0].to_arrow().column("id").to_pylist() == ["ann"]
    assert batches[0].to_pandas()["op"].tolist() == ["insert"]
    assert batches[0].to_polars()["type"].to_list() == ["Person"]
    assert "inside a commit" in repr(batches[0])
    assert [one.id for batch in feed for one in batch] == ["ann", "bo"]
    assert list(feed) == []
    with pytest.raises(TypeError):
        source.feed()
