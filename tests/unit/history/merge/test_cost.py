"""What a merge costs: it follows what the source changed, not the graph, its history or its other tables."""

from __future__ import annotations

import errno
import tempfile

import pyarrow as pa
import pytest
from tests.merge_graph import DRAFT, history_of, put
from tests.session_graph import create_graph, open_session, read_graph

from omnigraph.errors import FileAccessError
from omnigraph.history.merge import merge_branch, preview_merge, revert_commit
from omnigraph.values import BranchName

ITEM = "node:Item"


def _graph(root, *, depth=1, others=0, rows=10):
    types = "\n".join(f"node Other{number} {{ size: I32? }}" for number in range(others))
    create_graph(root, f"node Item {{ size: I32? }}\n{types}")
    session = open_session(root)
    put(session, ITEM, {f"row{number:06}": {"size": number} for number in range(rows)})
    for number in range(depth):
        put(session, ITEM, {"row000001": {"size": number}})
    return session


def _merge_calls(session):
    """The calls of a merge of one row after both sides have moved."""
    session.store.create_branch(BranchName(DRAFT))
    put(session, ITEM, {"row000002": {"size": -1}}, DRAFT)
    put(session, ITEM, {"row000003": {"size": -1}})
    return merge_branch(session, DRAFT).cost.total_calls


def test_neither_history_nor_other_tables_nor_rows_make_a_merge_ask_more_often(tmp_path):
    with _graph(tmp_path / "small") as small:
        calls = _merge_calls(small)
    for name, options in {"old": {"depth": 70}, "wide": {"others": 20}, "long": {"rows": 20_000}}.items():
        with _graph(tmp_path / name, **options) as session:
            # Folding small fragments and the manifest's own lineage may add a few, whatever the number of commits.
            assert _merge_calls(session) <= calls + 4, name


def test_many_rows_are_merged_inserted_and_deleted_alike(tmp_path):
    count = 9_000
    with _graph(tmp_path / "many", rows=count) as session:
        session.store.create_branch(BranchName(DRAFT))
        put(session, ITEM, {f"new{number:06}": {"size": number} for number in range(count)}, DRAFT)
        put(session, ITEM, {f"row{number:06}": None for number in range(10, count)}, DRAFT)
        put(session, ITEM, {"row000003": {"size": -1}})
        (counts,) = merge_branch(session, DRAFT).tables
        assert (counts.inserted, counts.updated, counts.deleted) == (count, 0, count - 10)
        rows = read_graph(session)[ITEM]
        assert len(rows) == count + 10
        assert rows["row000003"]["size"] == -1
        assert history_of(session)[0].operation == "branch_merge"


def test_a_difference_that_does_not_fit_its_memory_lies_in_files_and_none_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with _graph(tmp_path / "big") as session:
        session.store.create_branch(BranchName(DRAFT))
        commit = put(session, ITEM, {f"new{number}": {"size": number} for number in range(500)}, DRAFT).commit
        assert preview_merge(session, DRAFT, memory_bytes=2_000).tables[0].inserted == 500
        assert merge_branch(session, DRAFT, memory_bytes=2_000).tables[0].inserted == 500
        assert revert_commit(session, commit.id, DRAFT, memory_bytes=2_000).tables[0].deleted == 500
        with monkeypatch.context() as full:
            full.setattr(pa, "OSFile", _no_space)
            with pytest.raises(FileAccessError, match="cannot write temporary files"):
                preview_merge(session, DRAFT, memory_bytes=2_000)
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


def _no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
