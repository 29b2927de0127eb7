"""Merges and differences in ranges of ids, laid down in files, give exactly what they give in memory."""

from __future__ import annotations

import os
import random
import tempfile

import pytest

from omnigraph.history.diff.compare import GraphDiff
from omnigraph.history.merge import merge_branch, planning, preview_merge
from omnigraph.store.staging import change as staging
from omnigraph.values import BranchName
from tests.marks import first
from tests.merge_graph import Template, put
from tests.session_graph import read_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
PERSON, KNOWS = "node:Person", "edge:Knows"
SCHEMA = """
node Person { name: String?  tags: [String]?  photo: Blob?  place: Vector(2)? }
edge Knows: Person -> Person { note: String? }
"""
NAMES = [f"{start}{number}" for start in ("a", "é", "Z", "0'") for number in range(12)]
# Of these, many ranges hold no more than a row or two.
TINY, SMALL = 1, 3_000


def _person(choose):
    return {
        "name": choose.choice([None, "", "x", "y"]),
        "tags": choose.choice([None, [], ["x"]]),
        "photo": choose.choice([None, b"\x00" * 50]),
        "place": choose.choice([None, [0.5, 1.0]]),
    }


def _rows(choose, most):
    names = choose.sample(NAMES, choose.randint(0, most))
    return {name: None if choose.random() < 0.25 else _person(choose) for name in names}


def _edges(choose, most):
    ends = {"src": "anchor", "dst": "anchor"}
    return {
        name: None if choose.random() < 0.25 else ends | {"note": choose.choice([None, "x", "y"])}
        for name in choose.sample(NAMES, choose.randint(0, most))
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    seed = '{"type": "Person", "data": {"id": "anchor"}}'
    return Template(tmp_path_factory.mktemp("parts"), SCHEMA, seed, branches=())


@pytest.mark.parametrize("seed", first(1, range(40 if LONG else 3)))
def test_every_budget_gives_the_same_merge_and_the_same_difference(template, seed, monkeypatch, tmp_path):
    choose = random.Random(seed)  # noqa: S311 - no secret
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ranges = _count_ranges(monkeypatch)
    with template.open() as session:
        for table_key, make in ((PERSON, _rows), (KNOWS, _edges)):
            put(session, table_key, make(choose, 40))
            put(session, table_key, make(choose, 10))
        session.store.create_branch(BranchName("draft"))
        for branch in ("draft", "main", "draft"):
            put(session, PERSON, _rows(choose, 20), branch)
            put(session, KNOWS, _edges(choose, 20), branch)
        states = session.snapshot(), session.snapshot("draft")
        expected = preview_merge(session, "draft")
        differences = list(GraphDiff(*states)), GraphDiff(*states).stats()
        assert not ranges
        for memory_bytes in (TINY, SMALL):
            found = preview_merge(session, "draft", memory_bytes=memory_bytes)
            assert found.to_json() == expected.to_json()
            diff = GraphDiff(*states, memory_bytes=memory_bytes)
            assert (list(diff), diff.stats()) == differences
        resolve = choose.choice(["ours", "theirs"])
        # The same merge on another branch in one piece, and here with its rows staged in parts too.
        session.store.create_branch(BranchName("other"))
        whole = merge_branch(session, "draft", "other", resolve=resolve)
        monkeypatch.setattr(staging, "_LOOKED_UP", 5)
        monkeypatch.setattr(staging, "_WRITTEN_AT_ONCE", 2)
        monkeypatch.setattr(planning, "_MANY_IDS", 0)
        parted = merge_branch(session, "draft", resolve=resolve, memory_bytes=TINY)
        assert parted.tables == whole.tables
        assert read_graph(session) == read_graph(session, "other")
        counts = {key: entry.row_count for key, entry in session.snapshot().state.tables.items()}
        assert counts == {key: len(rows) for key, rows in read_graph(session).items()}
    assert len(ranges) > 20
    assert list(tmp_path.iterdir()) == []


def test_a_difference_across_a_schema_change_is_the_same_in_ranges(template):
    choose = random.Random(7)  # noqa: S311 - no secret
    with template.open() as session:
        put(session, PERSON, _rows(choose, 40))
        before = session.snapshot()
        session.apply_schema(SCHEMA.replace("name: String?", 'title: String? @rename_from("name")  age: I32?'))
        made = dict.fromkeys(("tags", "photo", "place"))
        put(session, PERSON, {name: made | {"title": "new", "age": 3} for name in NAMES[:9]})
        after = session.snapshot()
        for states in ((before, after), (after, before)):
            expected = list(GraphDiff(*states))
            assert len(expected) >= 9
            assert list(GraphDiff(*states, memory_bytes=TINY)) == expected


def _count_ranges(monkeypatch):
    """Count the ranges of ids that merges are worked out in."""
    found, iterate = [], planning.iter_parts

    def counted(*arguments):
        for part in iterate(*arguments):
            found.append(part)
            yield part

    monkeypatch.setattr(planning, "iter_parts", counted)
    return found
