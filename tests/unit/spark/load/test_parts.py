"""Parts of the input: together they are the whole, whatever their size, and every row knows its line."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.load.reading.jsonl import iter_chunks
from omnigraph.engine.load.sources.source import Source
from omnigraph.errors import SparkUnsupportedError
from omnigraph.spark.load.options import SparkLoadSettings
from omnigraph.spark.load.parts import RangeStream, split_sources
from omnigraph.spark.runner import InProcessRunner


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("parts") / "lines.jsonl"


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.text("ab", max_size=9), min_size=1, max_size=12),
    ends=st.booleans(),
    part_bytes=st.integers(1, 20),
    chunk_bytes=st.integers(1, 8),
)
def test_ranges_hold_every_line_once_with_its_number(file, lines, ends, part_bytes, chunk_bytes):
    data = "\n".join(lines) + ("\n" if ends else "")
    file.write_text(data)
    found = []
    for part in split_sources([Source(path=str(file))], InProcessRunner(), SparkLoadSettings(part_bytes=part_bytes)):
        with file.open("rb") as raw:
            stream = RangeStream("x", raw, part.start, len(data) if part.end is None else part.end)
            for chunk in iter_chunks(
                stream, "x", chunk_bytes=chunk_bytes, max_line_bytes=99, first_line=part.first_line
            ):
                texts = chunk.data.decode().split("\n")[:-1]
                found += [(chunk.first_line + at, text) for at, text in enumerate(texts)]
    assert found == list(enumerate(data.removesuffix("\n").split("\n") if data else [], start=1))


def test_row_groups_are_read_in_order_and_once(tmp_path):
    pq.write_table(pa.table({"name": [f"p{at}" for at in range(70)]}), tmp_path / "Person.parquet", row_group_size=20)
    parts = split_sources(
        [Source(path=str(tmp_path / "Person.parquet"))], InProcessRunner(), SparkLoadSettings(part_rows=40)
    )
    assert [(part.groups.numbers, part.groups.rows_before) for part in parts] == [((0, 1), 0), ((2, 3), 40)]


def test_standard_input_is_refused_because_workers_cannot_read_it():
    with pytest.raises(SparkUnsupportedError, match="standard input"):
        split_sources([Source(path="-")], InProcessRunner(), SparkLoadSettings())
