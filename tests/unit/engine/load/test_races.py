"""Loads beside other writers: nothing that somebody else committed is lost, and rules hold on what is published."""

from __future__ import annotations

import pytest
from tests.load_graph import export, load_files, load_lines, make_graph

from omnigraph.errors import ConstraintViolationError, ExpectedVersionMismatchError, KeyExistsError
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
edge Knows: Person -> Person
"""
OLDER = '{"type":"Person","data":{"name":"Ada","age":2}}\n'
ADA = '{"type":"Person","data":{"name":"Ada","age":1,"city":"Rome"}}\n'


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        load_lines(opened, tmp_path / "seed.jsonl", ADA, "append")
        yield opened


@pytest.fixture
def meanwhile(graph, monkeypatch, tmp_path):
    """Let another load be published between the reading of the next one and its commit."""
    branch_writer = graph.store.branch_writer(BranchName(MAIN))
    commit = branch_writer.commit

    def arrange(lines, mode, **options):
        waiting = [None]

        def first_the_other(txn):
            if waiting:
                waiting.pop()
                monkeypatch.setattr(branch_writer, "commit", commit)
                load_lines(graph, tmp_path / "other.jsonl", lines, mode, **options)
                monkeypatch.setattr(branch_writer, "commit", first_the_other)
            return commit(txn)

        monkeypatch.setattr(branch_writer, "commit", first_the_other)

    return arrange


def test_patch_keeps_what_somebody_else_changed_meanwhile(graph, meanwhile, tmp_path):
    meanwhile('{"type":"Person","data":{"name":"Ada","city":"Oslo"}}\n', "merge", patch=True)
    load_lines(graph, tmp_path / "p.jsonl", OLDER, "merge", patch=True)
    assert export(graph)[0]["data"] == {"id": "Ada", "name": "Ada", "age": 2, "city": "Oslo"}


def test_patch_with_refuse_is_refused_when_its_rows_moved(graph, meanwhile, tmp_path):
    meanwhile('{"type":"Person","data":{"name":"Ada","city":"Oslo"}}\n', "merge", patch=True)
    with pytest.raises(ExpectedVersionMismatchError):
        load_lines(graph, tmp_path / "p.jsonl", OLDER, "merge", patch=True, on_conflict="refuse")
    assert export(graph)[0]["data"]["age"] == 1


def test_append_meets_an_id_that_came_meanwhile(graph, meanwhile, tmp_path):
    bob = ADA.replace("Ada", "Bob")
    meanwhile(bob, "append")
    with pytest.raises(KeyExistsError, match=r"b\.jsonl:1"):
        load_lines(graph, tmp_path / "b.jsonl", bob, "append")


def test_edge_to_a_node_that_went_meanwhile_is_refused(graph, meanwhile, tmp_path):
    meanwhile(ADA.replace("Ada", "Bob"), "overwrite")
    with pytest.raises(ConstraintViolationError, match="src 'Ada' not found in Person"):
        load_lines(graph, tmp_path / "e.jsonl", '{"edge":"Knows","from":"Ada","to":"Ada"}\n', "append")


def test_overwrite_with_refuse_of_a_table_that_moved_meanwhile_is_refused(graph, meanwhile, tmp_path):
    meanwhile(ADA.replace("Ada", "Bob"), "append")
    with pytest.raises(ExpectedVersionMismatchError):
        load_lines(graph, tmp_path / "o.jsonl", ADA.replace("Ada", "Cid"), "overwrite", on_conflict="refuse")


def test_rows_that_come_to_an_empty_type_meanwhile_go_with_an_overwrite_by_nothing(graph, meanwhile, tmp_path):
    (tmp_path / "Knows.csv").write_text("from,to\n")
    load_lines(graph, tmp_path / "a.jsonl", ADA, "overwrite")
    meanwhile('{"edge":"Knows","from":"Ada","to":"Ada"}\n', "append")
    (tmp_path / "a.jsonl").write_text(ADA)
    sources = [str(tmp_path / "a.jsonl"), str(tmp_path / "Knows.csv")]
    result = load_files(graph, sources, "overwrite")
    assert result.commit.touched == ("edge:Knows", "node:Person")
    assert [row.get("type") for row in export(graph)] == ["Person"]


def test_overwrite_of_nodes_sees_an_edge_that_came_meanwhile(graph, meanwhile, tmp_path):
    meanwhile('{"edge":"Knows","from":"Ada","to":"Ada"}\n', "append")
    with pytest.raises(ConstraintViolationError, match="'Ada' not found in Person"):
        load_lines(graph, tmp_path / "o.jsonl", ADA.replace("Ada", "Cid"), "overwrite")
