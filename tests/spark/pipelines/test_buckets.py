"""Sources in a bucket: frames are those that Spark makes of the same files elsewhere, and runs read what is new."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.engine.open_graph import init_graph
from omnigraph.errors import UsageError
from omnigraph.pipelines import Pipeline
from omnigraph.pipelines.check import find_mistakes
from omnigraph.pipelines.running import run, status, stream
from omnigraph.spark.steps.sources import read_files
from omnigraph.store.files import FileFolder
from omnigraph.store.location import Storage
from tests.load_graph import RELAXED
from tests.session import Session
from tests.spark.pipelines.crm import SCHEMA, people


def parquet(rows, schema=None) -> bytes:
    held = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), held, row_group_size=2)
    return held.getvalue()


MANY = pa.schema(
    [
        ("small", pa.uint8()),
        ("large", pa.uint64()),
        ("local", pa.timestamp("us")),
        ("at", pa.timestamp("ms", tz="UTC")),
        ("day", pa.date32()),
        ("list", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
        ("price", pa.decimal128(9, 2)),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("raw", pa.binary()),
    ]
)
VALUES = {
    "small": 200,
    "large": 2**63 + 1,
    "local": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - it has none on purpose
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "list": [{"x": 1, "y": "ä"}, {"x": None, "y": None}],
    "price": None,
    "word": "w",
    "raw": b"\x00\xff",
}
CASES = {
    "parquet": (
        "parquet",
        {},
        {"a.parquet": parquet([VALUES, {}, VALUES], MANY), "b.parquet": parquet([VALUES], MANY)},
    ),
    "folders": (
        "parquet",
        {},
        {
            "year=2025/day=2026-01-02/a.parquet": parquet([{"n": 1}]),
            "year=2026/day=__HIVE_DEFAULT_PARTITION__/b.parquet": parquet([{"n": 2}, {"n": None}]),
            "_SUCCESS": b"",
        },
    ),
    "merged": (
        "parquet",
        {"mergeSchema": "true"},
        {"a.parquet": parquet([{"n": 1}]), "b.parquet": parquet([{"n": 2, "name": "b"}])},
    ),
    "csv": (
        "csv",
        {"sep": ";", "nullValue": "NULL"},
        {"a.csv": "\ufeffname;age\r\nAnn;1\r\nBo;NULL\r\n".encode(), "b.csv": b'name;age\n"C;c";3\n\nD;'},
    ),
    "inferred": (
        "csv",
        {"inferSchema": "true", "comment": "#"},
        {"a.csv": b"# about\nn,at\n1,2026-01-02\n", "b.csv.gz": gzip.compress(b"n,at\n2,2026-01-03\n")},
    ),
    "headless": ("csv", {"header": "false"}, {"a.csv": b"1,a\n2,b", "b.csv": b"1,a\n"}),
    "latin": ("csv", {"encoding": "ISO-8859-1"}, {"a.csv": "name\nLöwe\n".encode("latin-1")}),
    "json": ("json", {}, {"a.json": b'{"n": 1, "in": {"x": [1.5]}}\n', "b.json": b'{"n": 2, "m": "x"}\n{"n": null}'}),
    "documents": ("json", {"multiLine": "true"}, {"a.json": b'[{"n": 1},\n {"n": 2}]', "b.json": b'{"n":\n 3}'}),
    "text": ("text", {}, {"a.txt": "one\n\nzwö\r\n".encode(), "b.txt": b"last"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_frame_is_that_of_the_same_files_elsewhere(spark, s3_endpoint, tmp_path, case):
    fmt, options, files = CASES[case]
    prefix = s3_endpoint.fresh_prefix()
    folder = FileFolder(storage=Storage.open(prefix, s3_endpoint.storage_options))
    for name, data in files.items():
        folder.put(f"in/{name}", data)
        place = tmp_path / "in" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    wanted = read_files(spark, fmt, [str(tmp_path / "in")], options)
    found = read_files(spark, fmt, [f"{prefix}/in"], options, s3_endpoint.storage_options)
    assert found.dtypes == wanted.dtypes
    assert sorted(map(repr, found.collect())) == sorted(map(repr, wanted.collect()))


@pytest.fixture
def bucket(s3_endpoint):
    """A folder of files, the graph beside it, and its address."""
    prefix, options = s3_endpoint.fresh_prefix(), s3_endpoint.storage_options
    storage = Storage.open(f"{prefix}/graph", options)
    init_graph(storage, SCHEMA, settings=RELAXED)
    with Session.open(storage, settings=RELAXED) as graph:
        yield FileFolder(storage=Storage.open(f"{prefix}/raw", options)), graph, f"{prefix}/raw"


def declared(path, incremental=None):
    crm = Pipeline("crm")
    crm.source("customers", format="csv", path=path, incremental=incremental)
    crm.node("Person", sql="SELECT lower(email) AS slug, CAST(age AS INT) AS age FROM customers")
    return crm


def test_a_run_reads_the_new_files_of_a_bucket_alone(spark, bucket):
    folder, graph, raw = bucket
    folder.put("a.csv", b"email,age\nA@x,1\nB@x,2\n")
    crm = declared(f"{raw}/*.csv", "files")
    first = run(crm, graph, spark=spark)
    assert {slug: row["age"] for slug, row in people(graph).items()} == {"a@x": 1, "b@x": 2}
    assert first.steps[-1].rows_in == 2
    folder.put("b.csv", b"email,age\nC@x,3\n")
    second = run(crm, graph, spark=spark)
    assert (second.steps[-1].rows_in, sorted(people(graph))) == (1, ["a@x", "b@x", "c@x"])
    # A file that was written again is a new one.
    folder.put("a.csv", b"email,age\nA@x,9\n")
    third = run(crm, graph, spark=spark)
    assert (third.steps[-1].rows_in, people(graph)["a@x"]["age"]) == (1, 9)
    assert run(crm, graph, spark=spark).outcome == "nothing"
    assert [path for path, _, _ in status(graph, "crm")[0].progress["customers"]["files"]] == [f"{raw}/a.csv"]


def test_a_run_goes_on_by_a_column_of_files_of_a_bucket(spark, bucket):
    folder, graph, raw = bucket
    folder.put("a.parquet", parquet([{"email": "A@x", "age": 1}, {"email": "B@x", "age": 2}]))
    crm = Pipeline("crm")
    crm.source("customers", format="parquet", path=raw, incremental="age")
    crm.node("Person", input="customers", set={"slug": "lower(email)"})
    run(crm, graph, spark=spark)
    folder.put("b.parquet", parquet([{"email": "C@x", "age": 3}]))
    assert run(crm, graph, spark=spark).steps[-1].rows_in == 1
    assert sorted(people(graph)) == ["a@x", "b@x", "c@x"]


def test_what_cannot_be_read_of_a_bucket_is_told_at_its_line(spark, bucket, tmp_path):
    folder, graph, raw = bucket
    folder.put("in/year=2026/a.csv", b"email,age\n")
    for path, options, message in (
        (f"{raw}/none", {}, "no such file or folder"),
        (f"{raw}/in", {}, "become columns for Parquet only"),
        (f"{raw}/in/*/*.csv", {"multiLine": "true"}, "without multiLine"),
        (f"{raw}/in/*/*.csv", {"encoding": "utf-99"}, "unknown encoding 'utf-99'"),
        ([f"{raw}/in", str(tmp_path)], {}, "files of a bucket and local files"),
    ):
        crm = Pipeline("crm")
        crm.source("customers", format="csv", path=path, options=options)
        crm.node("Person", input="customers", key="lower(email)")
        (mistake,) = find_mistakes(crm.declaration(), graph.catalog(), spark, storage=graph.store.storage.options)
        assert message in mistake.message
        assert (mistake.file, mistake.step) == (__file__, "customers")
    with pytest.raises(UsageError, match="cannot be streamed"):
        stream(declared(raw), graph, checkpoint=tmp_path / "checkpoint", spark=spark)
