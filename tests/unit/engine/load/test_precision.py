"""DateTime keeps milliseconds: finer instants are refused in every format, unless the load says to cut them."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.load_graph import export, load_files, make_graph

from omnigraph.errors import BadRowsError
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.runner import InProcessRunner

SCHEMA = "node Event { code: String @key  at: DateTime?  all: [DateTime]? }"
ZEROS = "2026-01-31T10:00:00.001000Z"
FINE = "2026-01-31T10:00:00.001234Z"
EARLY = "1969-12-31T23:59:59.999999Z"
KEPT = 1769853600001


def _jsonl(path, texts):
    rows = [{"type": "Event", "data": {"code": str(at), "at": text}} for at, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _csv(path, texts):
    path.write_text("code,at\n" + "".join(f"{at},{text or ''}\n" for at, text in enumerate(texts)))


def _parquet(unit):
    def write(path, texts):
        moments = [None if text is None else dt.datetime.fromisoformat(text) for text in texts]
        columns = {"code": [str(at) for at in range(len(texts))], "at": pa.array(moments, pa.timestamp(unit, "UTC"))}
        pq.write_table(pa.table(columns), path)

    return write


FORMATS = {
    "jsonl": ("Event.jsonl", _jsonl, 2, FINE),
    "csv": ("Event.csv", _csv, 3, FINE),
    "us": ("Event.parquet", _parquet("us"), 2, FINE),
    "ns": ("Event.parquet", _parquet("ns"), 2, FINE),
}


def _embedded(graph, path, **options):
    return load_files(graph, [str(path)], "append", **options)


def _on_spark(graph, path, *, truncate=False):
    return run_load(graph, [str(path)], SparkLoadRequest(mode="append", truncate=truncate), InProcessRunner())


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("load", [_embedded, _on_spark])
def test_instants_finer_than_a_millisecond_are_refused_unless_they_are_to_be_cut(graph, tmp_path, form, load):
    name, write, line, shown = FORMATS[form]
    path = tmp_path / name
    write(path, [ZEROS, FINE, None, EARLY])
    with pytest.raises(BadRowsError) as caught:
        load(graph, path)
    first, last = caught.value.details.items
    assert (first.line, first.property, first.rule, first.value) == (line, "at", "precision", shown)
    assert last.value == EARLY
    assert f"property 'at' has an invalid value: '{FINE}' is finer than a millisecond" in caught.value.message
    assert "--truncate" in (caught.value.hint or "")
    assert export(graph) == []
    load(graph, path, truncate=True)
    assert [row["data"]["at"] for row in export(graph)] == [KEPT, KEPT, None, -1]


def test_zeros_below_a_millisecond_lose_nothing(graph, tmp_path):
    for name, write, _, _ in FORMATS.values():
        write(tmp_path / name, [ZEROS])
        load_files(graph, [str(tmp_path / name)], "merge")
        assert [row["data"]["at"] for row in export(graph)] == [KEPT]


def test_items_of_a_list_are_looked_at_too(graph, tmp_path):
    path = tmp_path / "Event.parquet"
    moments = [[dt.datetime.fromisoformat(text) for text in (ZEROS, FINE)]]
    pq.write_table(pa.table({"code": ["a"], "all": pa.array(moments, pa.list_(pa.timestamp("us")))}), path)
    with pytest.raises(BadRowsError, match=r"property 'all' .* at \[1\]: .* finer than a millisecond") as caught:
        load_files(graph, [str(path)], "append")
    assert caught.value.details.items[0].value == FINE
    load_files(graph, [str(path)], "append", truncate=True)
    assert export(graph)[0]["data"]["all"] == [KEPT, KEPT]
