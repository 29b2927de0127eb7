"""Pages of differences: together they are the difference, and none of them reads again what came before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.errors import ChangeCursorError
from omnigraph.history.feed.deltas import Deltas
from omnigraph.history.feed.diff_pages import diff_page
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.operations.history import CommitChangesRequest, DiffPageRequest
from omnigraph.store.tables.pinned import PinnedTable

TYPES, ROWS, LIMIT = ("Apple", "Birch", "Cedar"), 120, 20
SCHEMA = "\n".join(f"node {name} {{ key: String @key  text: String? }}" for name in TYPES)


def load(graph: omnigraph.Graph, folder: Path, text: str, keys: Iterable[str], types: Iterable[str] = TYPES) -> None:
    """Load rows of some types."""
    file = folder / f"{text}.jsonl"
    found = [{"type": name, "data": {"key": key, "text": text}} for name in types for key in keys]
    file.write_text("\n".join(map(json.dumps, found)), encoding="utf-8")
    graph.load(file, mode="merge")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages") / "g.omni"
    with omnigraph.init(place, SCHEMA, settings=RELAXED) as graph:
        keys = [f"{number:05}" for number in range(ROWS + 10)]
        load(graph, place.parent, "one", keys[:ROWS])
        load(graph, place.parent, "two", keys[ROWS // 2 :])
        graph.mutate("query q($key: String) { delete Birch where key = $key }", {"key": "00003"})
    return place


@pytest.fixture
def graph(place: Path) -> Iterator[omnigraph.Graph]:
    with omnigraph.open(place, settings=RELAXED) as graph:
        yield graph


@contextmanager
def counting_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the rows that tables give, scan by scan."""
    counted: list[int] = []
    scan = PinnedTable.scan

    def count(batches):
        for batch in batches:
            counted.append(batch.num_rows)
            yield batch

    def watched(*arguments, **named):
        reader = scan(*arguments, **named)
        return pa.RecordBatchReader.from_batches(reader.schema, count(reader))

    with monkeypatch.context() as patched:
        patched.setattr(PinnedTable, "scan", watched)
        yield counted


def pages_of(graph: omnigraph.Graph, limit: int = LIMIT, **options):
    """Yield the pages of the difference between the first load and now."""
    before, after, token = "main~2", "main", None
    while True:
        asked = DiffPageRequest(
            before=before, after=after, page_token=token, limits=PageLimits(changes=limit), **options
        )
        page = graph.backend.execute(asked)
        yield page
        before, after, token = page.before, page.after, page.next_page_token
        if token is None:
            return


@pytest.mark.parametrize(
    "options",
    [{}, {"types": ["Birch"]}, {"ops": ["insert", "delete"]}, {"ids": ["00003", "00100", "00125"]}],
    ids=["all", "type", "ops", "ids"],
)
@pytest.mark.parametrize("limit", [1, 8000])
def test_pages_are_the_difference(graph: omnigraph.Graph, options: dict[str, list[str]], limit: int):
    whole = [change.to_json() for change in graph.diff("main~2", **options)]
    found = [change.to_json() for page in pages_of(graph, limit, **options) for change in page.changes]
    assert found == whole
    assert len(whole) > 1


def test_pages_read_every_row_once(place: Path, monkeypatch: pytest.MonkeyPatch):
    with omnigraph.open(place, settings=RELAXED) as cold, counting_rows(monkeypatch) as counted:
        list(cold.diff("main~2"))
        in_one_piece = sum(counted)
    with omnigraph.open(place, settings=RELAXED) as cold, counting_rows(monkeypatch) as counted:
        pages = list(pages_of(cold))
        assert len(pages) > 9
        assert 0 < sum(counted) <= in_one_piece


def test_a_late_page_reads_no_table_that_was_shown_before(
    graph: omnigraph.Graph, place: Path, monkeypatch: pytest.MonkeyPatch
):
    pages = list(pages_of(graph))
    begins_last = next(page for page in pages[1:] if page.changes[0].type.name == TYPES[-1])
    token = pages[pages.index(begins_last)].next_page_token
    asked = DiffPageRequest(
        before=pages[0].before, after=pages[0].after, page_token=token, limits=PageLimits(changes=LIMIT)
    )
    with omnigraph.open(place, settings=RELAXED) as cold, counting_rows(monkeypatch) as counted:
        list(cold.diff("main~2"))
        everything = sum(counted)
    with omnigraph.open(place, settings=RELAXED) as cold, counting_rows(monkeypatch) as counted:
        late = cold.backend.execute(asked)
        assert late == pages[pages.index(begins_last) + 1]
        assert 0 < sum(counted) <= everything // len(TYPES) + 1


def test_pages_of_a_commit_read_every_row_once(graph: omnigraph.Graph, monkeypatch: pytest.MonkeyPatch):
    commit = graph.log()[1].id
    with omnigraph.open(graph.uri, settings=RELAXED) as cold, counting_rows(monkeypatch) as counted:
        cold.backend.execute(CommitChangesRequest(commit_id=commit, limits=PageLimits(changes=8000)))
        in_one_piece = sum(counted)
    with omnigraph.open(graph.uri, settings=RELAXED) as cold, counting_rows(monkeypatch) as counted:
        token, count = None, 0
        while token is not None or not count:
            asked = CommitChangesRequest(commit_id=commit, page_token=token, limits=PageLimits(changes=LIMIT))
            token = cold.backend.execute(asked).next_page_token
            count += 1
        assert count > 5
        assert 0 < sum(counted) <= in_one_piece


def test_a_token_of_something_else_is_refused(graph: omnigraph.Graph):
    first = next(pages_of(graph))
    other = graph.backend.execute(
        CommitChangesRequest(commit_id=graph.log()[1].id, limits=PageLimits(changes=1))
    ).next_page_token
    for token, options in (
        (first.next_page_token, {"types": ["Birch"]}),
        (first.next_page_token, {"before": "main~1"}),
        (first.next_page_token, {"after": "main~1"}),
        (other, {}),
        ("x", {}),
    ):
        fields = {"before": first.before, "after": first.after} | options
        with pytest.raises(ChangeCursorError, match="change cursor rejected"):
            graph.backend.execute(DiffPageRequest(page_token=token, **fields))


def test_a_page_goes_on_behind_a_long_id(tmp_path: Path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        long = ["k" * 400 + str(number) for number in range(3)]
        load(graph, tmp_path, "long", long, ["Apple"])
        engine = graph.backend.engine
        before, after = engine.snapshot("main", "main~1"), engine.snapshot("main")
        deltas, token, found = Deltas(), None, []
        while token is not None or not found:
            page = diff_page(before, after, deltas, page_token=token, limits=PageLimits(changes=1))
            found += [change.id for change in page.changes]
            token = page.next_page_token
        assert found == long
