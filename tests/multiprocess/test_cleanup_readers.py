"""A read whose state a cleanup reclaims midway ends whole and right, or says that the state is gone; never less."""

import io
import json

import pytest

import omnigraph
from omnigraph.engine.export import ExportSettings
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import ChangeFeedGapError, HistoryGoneError
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.txn.settings import TxnSettings

SCHEMA = "node Person { name: String @key  note: String }\nedge Knows: Person -> Person\n"
ALL = "query a() { match { $p: Person } return { $p.name as n, $p.note as t } }"
NAMES = [f"p{number:03}" for number in range(60)]
RELAXED = TxnSettings(durability="relaxed")
AT_ONCE = MaintenanceSettings(threads=2, auto_every=0, unnamed_age_s=0, settle_s=0)


@pytest.fixture
def root(tmp_path):
    """A graph of few rows in many fragments, which later commits replace altogether."""
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED, maintenance=AT_ONCE) as graph:
        for start in range(0, len(NAMES), 5):
            _load(graph, tmp_path, NAMES[start : start + 5], "append")
    return tmp_path / "g"


@pytest.fixture
def graph(root):
    with omnigraph.open(root, mode="read_only") as opened:
        yield opened


@pytest.fixture
def sweep(root, tmp_path):
    """Replaces every row and reclaims what was before, as another process does; the second time it does nothing."""
    calls = []

    def act():
        if calls:
            return
        calls.append(1)
        before = {path for path in root.rglob("*.lance") if path.is_file()}
        with omnigraph.open(root, settings=RELAXED, maintenance=AT_ONCE) as other:
            _load(other, tmp_path, ["only"], "overwrite")
            assert other.cleanup(keep=1, dry_run=False).bytes > 0
        assert len(before - {path for path in root.rglob("*.lance") if path.is_file()}) > 10

    yield act
    assert calls


def _load(graph, folder, names, mode):
    path = folder / "rows.jsonl"
    rows = [{"type": "Person", "data": {"name": name, "note": name * 300}} for name in names]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    graph.load(path, mode)


def _whole_or_gone(read):
    """The names that a read gave, or none when it said that they are gone."""
    try:
        names = sorted(read())
    except HistoryGoneError:
        return None
    assert names == NAMES
    return names


@pytest.mark.parametrize("at", [None, "main"])
def test_rows_that_are_drawn_slowly(graph, sweep, at):
    state = graph if at is None else graph.at(at)
    batches = state.query(ALL, options=QueryOptions(streams=True)).stream()
    first = next(batches)
    sweep()
    _whole_or_gone(lambda: [row["n"] for batch in (first, *batches) for row in batch.to_pylist()])


def test_a_state_that_was_pinned_and_not_yet_read(graph, sweep):
    pinned, result = graph.at("main"), graph.query(ALL, options=QueryOptions(streams=True))
    sweep()
    for read in (lambda: result, lambda: pinned.query(ALL)):
        assert _whole_or_gone(lambda read=read: [row["n"] for row in read()]) is None
    assert [row["n"] for row in graph.query(ALL)] == ["only"]


def test_a_difference_that_is_read_slowly(graph, sweep):
    first = graph.log(limit=100)[-1]
    changes = iter(graph.diff(first))
    ids = [next(changes).id]
    sweep()
    _whole_or_gone(lambda: [*ids, *(change.id for change in changes)])
    with pytest.raises(HistoryGoneError):
        list(graph.diff(first, "~1"))


def test_a_feed_that_is_read_page_by_page(graph, sweep):
    batches = iter(graph.feed("beginning", limits=PageLimits(changes=7)))
    ids = [change.id for change in next(batches)]
    sweep()
    with pytest.raises(ChangeFeedGapError, match="was reclaimed"):
        ids.extend(change.id for batch in batches for change in batch)
    assert ids == NAMES[: len(ids)]


def test_an_export_that_somebody_takes_slowly(graph, sweep):
    class Slow(io.BytesIO):
        def write(self, data):
            sweep()
            return super().write(data)

    def read():
        sink = Slow()
        graph.export_stream(sink)
        return [json.loads(line)["data"]["name"] for line in sink.getvalue().splitlines()]

    _whole_or_gone(read)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_into_files_leaves_all_of_them_or_none(graph, sweep, tmp_path, form):
    target = tmp_path / "out"

    def read():
        settings = ExportSettings(rows_per_file=5, threads=1)
        done = graph.export(target, form, settings=settings, progress=lambda _: sweep())
        assert done.types[0].rows == len(NAMES)
        return NAMES

    if _whole_or_gone(read) is None:
        assert not target.exists() or list(target.iterdir()) == []
