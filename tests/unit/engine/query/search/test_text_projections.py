"""Postings kept beside the table: found by other processes, right at every version, and never needed for an answer."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text_tables import TITLES, TextTable, answers, no_limit

from omnigraph.engine.past import ColumnReading, ReadTable
from omnigraph.engine.query.search import TextIndex, TextIndexes, build_text, stored, versions
from omnigraph.engine.query.search.stored import find_text, make_text
from omnigraph.engine.query.topology import TopologyCache
from omnigraph.errors import BadValue, QueryCancelledError
from omnigraph.runtime import counting
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.tables.pinned import PinnedTable

WORDS = ("graph", "graphs", "grape", "storage", "notes", "café", "日本", "the")
QUERIES = ("graph", "storage notes cafe", "日本 unknown the", "grpah")
TEXT = st.none() | st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
IDS = st.sampled_from([f"r{number:03}" for number in range(24)])


@pytest.fixture
def table(tmp_path):
    texts = [None if number % 7 == 6 else f"graph {WORDS[number % 8]} number{number}" for number in range(40)]
    return TextTable.of(tmp_path / "graph", *texts)


@contextmanager
def columns_read():
    """List the columns of every scan, with how many fragments it reads."""
    seen, scan = [], PinnedTable.scan

    def spy(self, columns=None, *given, fragment_ids=None, **options):
        seen.extend((name, None if fragment_ids is None else len(fragment_ids)) for name in columns or ("*",))
        return scan(self, columns, *given, fragment_ids=fragment_ids, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PinnedTable, "scan", spy)
        yield seen


def opened(view, **options):
    """Search as a process does that has nothing in memory; return what it did and what it found."""
    indexes = TextIndexes(saved_rows=options.get("saved_rows", 10))
    index = view.another_process().index(indexes)
    return indexes, index


def agrees(view, index):
    return answers(index, QUERIES) == answers(view.fresh_index(), QUERIES)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(IDS, TEXT, min_size=1, max_size=6)),
        st.tuples(st.just("delete"), st.sets(IDS, min_size=1, max_size=6)),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("fork"), st.none()),
        st.tuples(st.just("return"), st.integers(0, 10)),
        st.tuples(st.just("keep"), st.none()),
        st.tuples(st.just("lose"), st.integers(0, 10)),
        st.tuples(st.just("damage"), st.integers(0, 1 << 20)),
    ),
    min_size=3,
    max_size=9,
)


class Run:
    """A table that steps change, and searchers that have followed it from the beginning."""

    def __init__(self, root, rows):
        self.view = TextTable(root, rows)
        self.pins = [self.view.pin]
        self.forks = 0
        self.heads = {None: self.view.pin}
        # One never looks for files, one writes whenever it can, one looks and writes but keeps nothing in memory.
        self.searchers = [TextIndexes(), TextIndexes(saved_rows=1), TextIndexes(capacity_bytes=0, saved_rows=6)]

    def step(self, what, given):
        view = self.view
        ids = set(view.content())
        if what == "fork" or (what in ("put", "delete", "compact") and self.heads[view.pin.branch] != view.pin):
            # What follows an earlier version is a branch.
            self.forks += 1
            view.fork(f"side{self.forks}")
        if what == "put":
            view.put(given)
        elif what == "delete" and ids & given:
            view.delete(*(ids & given))
        elif what == "compact" and ids:
            view.compact()
        elif what == "return":
            view.pin = self.pins[given % len(self.pins)]
            return
        elif what == "keep":
            build_text(view.table, "title")
        elif what == "lose" and view.files:
            view.files[given % len(view.files)].unlink()
        elif what == "damage" and view.files:
            path = view.files[given % len(view.files)]
            data = bytearray(path.read_bytes())
            data[given % len(data)] ^= 1 << given % 8
            # Whoever has it mapped keeps what it had.
            path.unlink()
            path.write_bytes(data)
        self.pins.append(view.pin)
        if what in ("put", "delete", "compact", "fork"):
            self.heads[view.pin.branch] = view.pin

    def check(self):
        expected = answers(self.view.fresh_index(), QUERIES)
        for searcher in self.searchers:
            assert answers(self.view.index(searcher), QUERIES) == expected
        cold = self.view.another_process()
        assert answers(cold.index(TextIndexes(saved_rows=4)), QUERIES) == expected


@pytest.mark.more
@settings(max_examples=15, deadline=None)
@given(st.dictionaries(IDS, TEXT, max_size=20), STEPS)
def test_no_kept_postings_change_an_answer(rows, steps):
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "graph", rows)
        run.check()
        for what, given_value in steps:
            run.step(what, given_value)
            run.check()


def test_a_second_process_analyses_nothing_and_reads_no_text(table):
    first, _ = opened(table)
    assert (first.stats.builds, first.stats.analysed_rows, len(table.files)) == (1, 40, 1)
    with columns_read() as read:
        second, index = opened(table)
        found = answers(index, QUERIES)
    assert (second.stats.builds, second.stats.opened, second.stats.analysed_rows) == (0, 1, 0)
    assert "title" not in [name for name, _ in read]
    assert found == answers(table.fresh_index(), QUERIES)
    assert len(table.files) == 1


def test_postings_in_a_bucket_are_fetched_once(clean_s3_endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = clean_s3_endpoint.storage_options_without_retries
    texts = [f"graph number{number}" for number in range(20)]
    table = TextTable.of(clean_s3_endpoint.fresh_prefix(), *texts, storage_options=options)
    first, _ = opened(table)
    assert (first.stats.builds, first.stats.analysed_rows) == (1, 20)
    with columns_read() as read, counting() as counters:
        second, index = opened(table)
        third, _ = opened(table)
        assert answers(index, QUERIES[:1])["graph"][0] == list(range(20))
    assert "title" not in [name for name, _ in read]
    assert (second.stats.analysed_rows, third.stats.analysed_rows) == (0, 0)
    assert counters.cost().calls.get("projection.get", 0) <= 1
    assert agrees(table, index)


def test_mapped_and_private_bytes_are_counted_apart(table):
    build_text(table.table, "title")
    indexes, index = opened(table)
    assert indexes.mapped_bytes == index.parts[0].projection.header.body_bytes
    before = indexes.private_bytes
    assert 0 < before < 4096
    index.fuzzy("grpah", 2)
    assert indexes.private_bytes > before


def test_after_a_write_only_its_fragment_is_read_and_analysed(table):
    build_text(table.table, "title")
    table.put({"r100": "graph of something new", "r003": "changed"})
    with columns_read() as read:
        indexes, index = opened(table)
    assert [count for name, count in read if name == "title"] == [1]
    assert (indexes.stats.opened, indexes.stats.analysed_rows, len(table.files)) == (1, 2, 1)
    assert agrees(table, index)
    table.delete("r100", "r005")
    view = table.another_process()
    later = view.index(indexes)
    assert (indexes.stats.extensions, indexes.stats.analysed_rows) == (1, 2)
    assert agrees(table, later)


def test_a_delete_analyses_nothing(table):
    build_text(table.table, "title")
    table.delete("r001", "r006", "r020")
    indexes, index = opened(table)
    assert (indexes.stats.opened, indexes.stats.analysed_rows) == (1, 0)
    assert (index.row_count, index.text_count) == (37, 34)
    assert agrees(table, index)


def test_kept_postings_serve_branches_and_earlier_versions(table):
    build_text(table.table, "title")
    before = table.pin
    table.fork("side")
    table.put({"r100": "on a branch"})
    indexes, index = opened(table)
    assert indexes.stats.analysed_rows == 1
    assert agrees(table, index)
    table.pin = before
    indexes, index = opened(table)
    assert indexes.stats.analysed_rows == 0
    assert agrees(table, index)


def test_at_an_earlier_version_only_rows_that_are_back_are_analysed(table):
    table.put({"r100": "another fragment"})
    before = table.pin
    table.delete("r003", "r008", "r030", "r100")
    table.put({"r004": "changed"})
    build_text(table.table, "title")
    table.pin = before
    with columns_read() as read:
        indexes, index = opened(table)
    # The fragment of r100 had left when the postings were built.
    assert [count for name, count in read if name == "title"] == [1]
    assert (indexes.stats.opened, indexes.stats.analysed_rows) == (1, 5)
    assert agrees(table, index)
    # What is back at one version says nothing about the next.
    table.fork("side")
    table.delete("r008", "r009")
    later = table.another_process().index(indexes)
    assert (indexes.stats.extensions, indexes.stats.analysed_rows) == (1, 5 + 3)
    assert agrees(table, later)


def test_many_rows_that_are_back_are_read_with_their_fragments(table, monkeypatch):
    monkeypatch.setattr(versions, "_FETCHED_ROWS", 2)
    table.put({f"s{number:03}": f"graph storage{number}" for number in range(10)})
    before = table.pin
    table.delete("r001", "r003", "r020", "s002", "s009")
    build_text(table.table, "title")
    table.pin = before
    indexes, index = opened(table)
    assert (indexes.stats.opened, indexes.stats.analysed_rows) == (1, 5)
    assert agrees(table, index)


def test_the_postings_that_cover_most_are_taken(table):
    build_text(table.table, "title")
    before = table.pin
    table.put({f"s{number:03}": f"graph storage{number}" for number in range(30)})
    build_text(table.table, "title")
    assert len(table.files) == 2
    table.put({"r100": "one more"})
    indexes, index = opened(table)
    assert (indexes.stats.analysed_rows, len(index.parts)) == (1, 2)
    assert agrees(table, index)
    table.pin = before
    indexes, index = opened(table)
    assert (indexes.stats.analysed_rows, index.row_count) == (0, 40)
    assert agrees(table, index)


def test_building_again_analyses_what_is_new_and_nothing_when_nothing_is(table):
    assert make_text(table.table, "title", no_limit).analysed_rows == 40
    kept = build_text(table.table, "title")
    assert make_text(table.table, "title", no_limit).analysed_rows == 0
    assert build_text(table.another_process().table, "title").key == kept.key
    table.put({"r100": "one more", "r002": "changed"})
    table.delete("r010")
    made = make_text(table.table, "title", no_limit)
    assert (made.analysed_rows, made.part.postings.place_count) == (2, 42)
    assert len(table.files) == 2
    indexes, index = opened(table)
    assert (indexes.stats.analysed_rows, len(index.parts)) == (0, 1)
    assert agrees(table, index)


def test_a_searcher_uses_what_another_process_kept_meanwhile(table):
    searcher = TextIndexes(saved_rows=10)
    view = table.another_process()
    build_text(table.table, "title")
    index = view.index(searcher)
    assert (searcher.stats.builds, searcher.stats.opened, searcher.stats.analysed_rows) == (0, 1, 0)
    # All fragments change: what is in memory is of no use, what another process kept is.
    table.delete(*(f"r{number:03}" for number in range(15)))
    table.compact()
    build_text(table.table, "title")
    view.pin = table.pin
    index = view.index(searcher)
    assert (searcher.stats.opened, searcher.stats.analysed_rows) == (2, 0)
    assert agrees(table, index)


def test_small_tables_keep_nothing(table):
    indexes, _ = opened(table, saved_rows=41)
    assert (indexes.stats.builds, table.files) == (1, [])


@pytest.mark.parametrize("at", [3, 70, -100])
def test_a_damaged_file_is_replaced_and_no_error(table, at):
    build_text(table.table, "title")
    [path] = table.files
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    indexes, index = opened(table)
    assert (indexes.stats.builds, indexes.stats.analysed_rows) == (1, 40)
    assert agrees(table, index)
    again, index = opened(table)
    assert (again.stats.opened, again.stats.analysed_rows) == (1, 0)
    assert agrees(table, index)


def test_a_file_that_does_not_fit_what_it_covers_is_not_used(table):
    kept = build_text(table.table, "title")
    arrays = {**kept.load()}
    arrays["lengths"] = arrays["lengths"][:-1]
    table.files[0].unlink()
    table.projections.save("text", kept.header.of, kept.tables, arrays, kept.facts)
    assert find_text(table.another_process().table, "title") is None
    del arrays["counts"]
    table.files[0].unlink()
    table.projections.save("text", kept.header.of, kept.tables, arrays, kept.facts)
    assert find_text(table.another_process().table, "title") is None
    assert agrees(table, opened(table)[1])


def test_postings_of_another_analysis_are_left_alone(table, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(stored, "ANALYSER", "0; of another time")
        build_text(table.table, "title")
    indexes, index = opened(table)
    assert (indexes.stats.builds, indexes.stats.analysed_rows) == (1, 40)
    assert len(table.files) == 2
    assert agrees(table, index)


def test_where_nothing_can_be_written_a_search_still_answers(table):
    table.datasets.control.storage.path(PROJECTIONS_PREFIX).write_text("in the way")
    assert build_text(table.table, "title") is None
    indexes, index = opened(table)
    assert (indexes.stats.builds, indexes.mapped_bytes) == (1, 0)
    assert agrees(table, index)


def test_an_empty_table_has_nothing_to_keep(tmp_path):
    table = TextTable(tmp_path / "graph", {})
    assert build_text(table.table, "title") is None
    indexes, index = opened(table, saved_rows=1)
    assert (index.matches("graph").tolist(), index.row_count, table.files) == ([], 0, [])
    assert indexes.stats.analysed_rows == 0


def test_a_column_that_was_added_later_is_covered_too(table):
    table.put({"r200": "a second fragment"})
    table.add_column("body")
    kept = build_text(table.table, "body")
    assert (kept.facts["texts"], kept.tables[0].row_count) == (0, 41)
    assert make_text(table.table, "body", no_limit).analysed_rows == 0
    view = table.another_process()
    indexes = TextIndexes(saved_rows=10)
    assert view.index(indexes, "body").matches("graph").tolist() == []
    assert (indexes.stats.opened, indexes.stats.analysed_rows) == (1, 0)
    assert build_text(table.table, "title").key != kept.key


def test_a_build_can_be_stopped_and_leaves_nothing(table):
    def stop(size_bytes):
        details = BadValue(what="query", value="cancelled", expected="running")
        raise QueryCancelledError("the query was cancelled", details=details)

    with pytest.raises(QueryCancelledError):
        build_text(table.table, "title", stop)
    with pytest.raises(QueryCancelledError):
        TextIndexes(saved_rows=10).get(table.image, "title", stop)
    assert table.files == []


def test_a_build_asks_before_it_takes_memory(table):
    asked = []
    build_text(table.table, "title", asked.append)
    assert max(asked) > table.table.read(["title"]).nbytes


def test_under_the_names_of_a_newer_schema_the_stored_column_counts(table):
    table.add_column("body")
    bodies = pa.table({"id": ["r001", "r900"], "title": ["notes", "x"], "body": ["river", "stone river"]})
    table.put_rows(bodies)
    for name in ("title", "body"):
        build_text(table.table, name)
    schema = pa.schema([TITLES.field("id"), *(pa.field(name, pa.string()) for name in ("body", "title", "later"))])
    reading = ColumnReading(schema=schema, origins={"id": "id", "body": "title", "title": "body"})
    for name, analysed_rows in (("title", 0), ("body", 0), ("later", 41)):
        view = table.another_process()
        renamed = ReadTable(view.table, reading, view.table.fields)
        indexes = TextIndexes(saved_rows=1)
        index = indexes.get(TopologyCache().image(renamed), name, no_limit)
        fresh = TextIndex.build(renamed.read([name]).column(name), no_limit)
        queries = (*QUERIES, "river stone")
        assert answers(index, queries) == answers(fresh, queries)
        assert indexes.stats.analysed_rows == analysed_rows
    assert len(table.files) == 2
    assert build_text(renamed, "later") is None


def test_an_index_of_a_column_that_is_not_stored_is_no_beginning_for_another(table):
    indexes = TextIndexes()
    reading = ColumnReading(schema=TITLES.append(pa.field("later", pa.string())), origins={"id": "id"})
    for _ in range(2):
        renamed = ReadTable(table.table, reading, table.table.fields)
        assert indexes.get(TopologyCache().image(renamed), "later", no_limit).text_count == 0
        table.put({"r500": "one more"})
    assert indexes.stats.builds + indexes.stats.extensions == 2
