"""What a result promises beyond its encodings: types, streaming, frames, notebooks."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.results import INFO, batch_of, column, result_of

from omnigraph.engine.results import ReadInfo, Result
from omnigraph.engine.results.frames import _with_instants
from omnigraph.errors import (
    LibraryMissingError,
    LimitExceeded,
    QueryCancelledError,
    QueryTimeoutError,
    ResultSpentError,
)
from omnigraph.runtime import Counters

TEXT, I32 = pa.string(), pa.int32()
FIRST, SECOND = batch_of(("n", I32, [1, 2])), batch_of(("n", I32, [3]))


class Source:
    """Batches that are made when they are asked for."""

    def __init__(self, *steps: pa.RecordBatch | BaseException) -> None:
        self.steps = steps
        self.pulled = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for step in self.steps:
            self.pulled += 1
            if isinstance(step, BaseException):
                raise step
            yield step


class TestShape:
    def test_empty_result_keeps_columns_and_types(self):
        schema = pa.schema(
            [("d", pa.date64()), ("d", pa.date32()), ("v", pa.list_(pa.float32(), 3)), ("n", pa.int64())]
        )
        found = Result(schema, [], INFO)
        assert found.to_arrow().schema == schema
        assert found.columns == ("d", "d", "v", "n")
        assert (len(found), found.num_rows, found.rows(), list(found)) == (0, 0, [], [])

    def test_table_is_taken_as_it_is(self):
        table = pa.Table.from_batches([FIRST, SECOND])
        found = Result(table.schema, table, INFO)
        assert found.to_arrow() == table
        assert len(found) == 3

    def test_arrow_keeps_equal_names_and_rows_take_the_last(self):
        found = result_of(("a", I32, [1]), ("b", I32, [2]), ("a", TEXT, ["x"]))
        assert found.to_arrow().column_names == ["a", "b", "a"]
        assert [array.to_pylist() for array in found.to_arrow().columns] == [[1], [2], ["x"]]
        assert found.rows() == [{"a": "x", "b": 2}]

    def test_facts_of_the_read_are_at_hand(self):
        counters = Counters()
        found = Result(FIRST.schema, [FIRST], ReadInfo(query_name="q", branch="main", commit_id="01C"), counters)
        counters.add_calls("get", 2, bytes_read=10)
        assert (found.query_name, found.commit_id, found.info.branch, found.explanation) == ("q", "01C", "main", None)
        assert (found.cost.total_calls, found.cost.bytes_read) == (2, 10)

    def test_other_libraries_take_it_as_an_arrow_stream(self):
        assert pa.table(result_of(("a", I32, [1]))) == result_of(("a", I32, [1])).to_arrow()

    def test_repr_tells_what_it_is_without_pulling_rows(self):
        source = Source(FIRST)
        found = Result(FIRST.schema, source, INFO)
        assert repr(found) == "<Result of q: rows not read yet, columns (n: int32)>"
        assert source.pulled == 0
        assert len(found) == 2
        assert repr(found) == "<Result of q: 2 rows, columns (n: int32)>"

    def test_print_shows_the_first_rows_as_a_table(self):
        assert str(result_of(("n", I32, [1]))) == "1 row from branch main via q\nn\n-\n1"
        lines = str(result_of(("n", I32, list(range(60))))).splitlines()
        assert lines[-2:] == ["49", "… and 10 more rows"]
        assert len(lines) == 54

    def test_writers_write_what_the_texts_hold(self):
        found = result_of(("n", pa.int64(), [2**60]), ("t", TEXT, ["x" * 20]))
        pairs = [
            (found.write_json, found.to_json, {"javascript": True}),
            (found.write_jsonl, found.to_jsonl, {"javascript": True}),
            (found.write_csv, found.to_csv, {}),
            (found.write_kv, found.to_kv, {}),
            (found.write_table, found.to_table, {"max_column_width": 10, "layout": "wrap"}),
        ]
        for write, text, options in pairs:
            sink = io.StringIO()
            write(sink, **options)
            assert sink.getvalue() == text(**options)
            assert sink.getvalue().endswith("\n")


class TestStreaming:
    def test_batches_come_as_they_are_pulled_and_can_be_read_again(self):
        source = Source(FIRST, SECOND)
        found = Result(FIRST.schema, source, INFO)
        batches = found.batches()
        assert next(batches) is FIRST
        assert source.pulled == 1
        assert [row["n"] for row in found] == [1, 2, 3]
        assert next(batches) is SECOND
        assert [batch.num_rows for batch in found.batches()] == [2, 1]
        assert source.pulled == 2

    def test_readers_on_several_threads_see_every_batch_once(self):
        found = Result(FIRST.schema, Source(*[FIRST] * 200), INFO)
        counts: list[int] = []
        threads = [threading.Thread(target=lambda: counts.append(len(found.rows()))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == [400] * 4

    def test_stream_keeps_nothing_and_leaves_nothing(self):
        found = Result(FIRST.schema, Source(FIRST, SECOND), INFO)
        assert [batch.num_rows for batch in found.stream()] == [2, 1]
        for again in (found.stream, found.rows, found.to_json, found.to_arrow):
            with pytest.raises(ResultSpentError, match="already streamed"):
                again()
        assert "rows not read yet" in repr(found)

    def test_stream_begins_with_what_was_pulled_before(self):
        found = Result(FIRST.schema, Source(FIRST, SECOND), INFO)
        next(found.batches())
        assert [batch.num_rows for batch in found.stream()] == [2, 1]

    def test_stream_of_rows_that_are_all_here_takes_nothing_away(self):
        found = Result(FIRST.schema, Source(FIRST, SECOND), INFO)
        assert len(found) == 3
        assert [batch.num_rows for batch in found.stream()] == [2, 1]
        assert len(found) == 3

    def test_read_that_failed_half_way_never_passes_for_a_whole_one(self):
        late = QueryTimeoutError("late", details=LimitExceeded(resource="time", limit=1, actual=2))
        found = Result(FIRST.schema, Source(FIRST, late), INFO)
        batches = found.batches()
        assert next(batches) is FIRST
        for ask in (lambda: next(batches), found.rows, found.to_csv, lambda: len(found), lambda: list(found.stream())):
            with pytest.raises(QueryTimeoutError, match="late"):
                ask()

    def test_failed_read_writes_nothing(self):
        late = QueryTimeoutError("late", details=LimitExceeded(resource="time", limit=1, actual=2))
        for encoding in ("json", "jsonl", "csv", "kv", "table"):
            sink = io.StringIO()
            with pytest.raises(QueryTimeoutError):
                getattr(Result(FIRST.schema, Source(FIRST, late), INFO), f"write_{encoding}")(sink)
            assert sink.getvalue() == ""

    def test_interrupted_read_is_cancelled_for_who_asks_later(self):
        found = Result(FIRST.schema, Source(FIRST, KeyboardInterrupt()), INFO)
        with pytest.raises(KeyboardInterrupt):
            found.rows()
        with pytest.raises(QueryCancelledError, match="interrupted"):
            found.rows()


class TestFrames:
    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_missing_library_is_named(self, library: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(LibraryMissingError, match=f"needs {library}, which is not installed") as caught:
            getattr(result_of(("n", I32, [1])), f"to_{library}")()
        assert caught.value.details.name == library
        assert isinstance(caught.value, ImportError)

    def test_instants_keep_their_time_on_the_way_to_frames(self):
        instants = column(pa.date64(), [1769853600123, None])
        lists = column(pa.list_(pa.date64()), [[1769853600123, None], None])
        vectors = column(pa.list_(pa.float32(), 1), [[1.0], None])
        table = pa.table([instants, lists, vectors], names=["a", "a", "v"])
        found = _with_instants(table)
        utc = pa.timestamp("ms", tz="UTC")
        assert found.schema.types == [utc, pa.list_(utc), vectors.type]
        assert found.column(0).cast(pa.int64()).to_pylist() == [1769853600123, None]
        assert found.column(1).cast(pa.list_(pa.int64())).to_pylist() == [[1769853600123, None], None]


class TestNotebook:
    def test_nothing_in_the_data_becomes_markup(self):
        bad = '<script>alert("x")</script>&\''
        shown = result_of((bad, TEXT, [bad]), info=ReadInfo(query_name=bad, branch=bad))._repr_html_()
        assert "<script" not in shown
        assert shown.count("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#x27;") == 4

    def test_columns_rows_and_headline_are_there(self):
        shown = result_of(("a", TEXT, ["x\ny", None]))._repr_html_()
        assert "<caption>2 rows from branch main via q</caption>" in shown
        assert "<thead><tr><th>a</th></tr></thead>" in shown
        assert "<tr><td>x\\ny</td></tr>\n<tr><td>null</td></tr>" in shown
        assert "more rows" not in shown

    def test_long_results_and_long_cells_are_cut_with_a_note(self):
        shown = result_of(("n", I32, list(range(75))))._repr_html_()
        assert shown.count("<td>") == 50
        assert shown.endswith("<p>… and 25 more rows</p>")
        assert len(result_of(("t", TEXT, ["x" * 10_000]))._repr_html_()) < 1000
