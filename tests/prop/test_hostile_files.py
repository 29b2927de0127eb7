"""Files damaged at random: an error of ours that changes nothing, or a load of what the file says; never a crash.

The same seeds are tried in every run, some in `make test` and many in `make fuzz`.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.engine.load import Source
from omnigraph.errors import OmnigraphError
from tests.load_graph import export, load_files, load_lines, make_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
ROUNDS = 20_000 if LONG else 150
SCHEMA = """
node Person { name: String @key  age: I32?  ratio: F64?  ok: Bool?  born: Date?  seen: DateTime?
              tags: [String]?  face: Vector(2)?  photo: Blob? }
"""
SEED = '{"type":"Person","data":{"name":"before"}}\n'
COUNT = 40


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    with make_graph(folder / "graph", SCHEMA) as opened:
        load_lines(opened, folder / "seed.jsonl", SEED, "append")
        yield opened


def _seeded(seed):
    return random.Random(seed)  # noqa: S311 - the same damage in every run


def _table(rng):
    rows = range(rng.choice([1, COUNT]))
    return pa.table(
        {
            "name": [f"p{row:03} ä\n\"'," for row in rows],
            "age": pa.array([row if row % 5 else None for row in rows], pa.int32()),
            "ratio": [row / 3 for row in rows],
            "ok": [row % 2 == 0 for row in rows],
            "born": pa.array([row * 100 for row in rows], pa.int32()).cast(pa.date32()),
            "seen": pa.array([row * 10**12 for row in rows], pa.timestamp("us", "UTC")),
            "tags": pa.array([[f"t{row % 3}", "é"] if row % 4 else None for row in rows]),
            "face": pa.array([[float(row), 2.0] for row in rows], pa.list_(pa.float32(), 2)),
            "photo": pa.array([b"\x00\xff" * row for row in rows]),
        }
    )


def _parquet(rng, *, has_sums=None):
    table = _table(rng)
    if rng.random() < 0.3:
        table = table.set_column(0, "name", table["name"].dictionary_encode())
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression=rng.choice(["none", "snappy", "gzip", "zstd"]),
        use_dictionary=rng.random() < 0.5,
        write_page_checksum=rng.random() < 0.5 if has_sums is None else has_sums,
        row_group_size=rng.choice([7, 1000]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        store_schema=rng.random() < 0.5,
    )
    return sink.getvalue()


def _csv(rng):
    sink = io.StringIO()
    write = csv.writer(sink, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), lineterminator=rng.choice("\n\r"))
    write.writerow(["name", "ratio", "ok"])
    write.writerows([f'p{row:03} "x",\né', row / 2, "true"] for row in range(COUNT))
    return sink.getvalue().encode()


def _jsonl(_):
    return b"".join(
        b'{"type":"Person","data":{"name":"p%03d \xc3\xa9","age":%d,"tags":["a\\u00e9","b"]}}\n' % (row, row)
        for row in range(COUNT)
    )


def _damage(rng, data, start=0, end=None):
    """Change bytes between two places: bits, zeroes, cuts, repeats, noise, bytes that mean something to some format."""
    data, end = bytearray(data), len(data) if end is None else end
    way = rng.choice(["bit", "bit", "byte", "sign", "zero", "cut", "repeat", "drop", "noise"])
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(start, end)
        size = min(rng.randrange(1, 40), end - at)
        match way:
            case "bit":
                data[at] ^= 1 << rng.randrange(8)
            case "byte":
                data[at] = rng.choice([0, 0x7F, 0x80, 0xFF])
            case "sign":
                data[at] = rng.choice(b'",\n\r{}[]:\\ ')
            case "zero":
                data[at : at + size] = bytes(size)
            case "noise":
                data[at : at + size] = rng.randbytes(size)
            case "cut":
                del data[at:]
                break
            case "repeat":
                data[at:at] = data[at : at + size]
            case _:
                del data[at : at + size]
                end = max(end - size, start + 1)
    return bytes(data)


def _source(path, kind):
    # Lines of the load format name their types; with a type of its own a file has plain lines.
    return Source(path=str(path), format=kind, type_name=None if kind == "jsonl" else "Person")


def _try(graph, path, kind):
    """Load a file in the place of all rows; return how many it had, or None and all is as it was."""
    before, failed = graph.snapshot().state.version, None
    try:
        done = load_files(graph, [_source(path, kind)], "overwrite")
    except OmnigraphError as error:
        failed = error
    if failed is not None:
        assert failed.code != "internal", failed
        assert graph.snapshot().state.version == before
        return None
    # What was loaded can be read, every column of it.
    assert done.total == len(export(graph)) or not done.total
    return done.total


def _rows(graph, path, kind):
    load_files(graph, [_source(path, kind)], "overwrite")
    return export(graph)


@pytest.mark.more
@pytest.mark.timeout(3600 if LONG else 600)
def test_damaged_parquet_is_refused_or_loaded(graph, tmp_path):
    path, ends = tmp_path / "Person.parquet", set()
    for seed in range(ROUNDS):
        rng = _seeded(seed)
        path.write_bytes(_damage(rng, _parquet(rng)))
        ends.add(_try(graph, path, "parquet") is None)
    assert ends == {True, False}


@pytest.mark.timeout(3600 if LONG else 600)
def test_damaged_pages_with_checksums_never_give_other_rows(graph, tmp_path):
    path = tmp_path / "Person.parquet"
    for seed in range(ROUNDS // 3):
        rng = _seeded(f"sums {seed}")
        whole = _parquet(rng, has_sums=True)
        path.write_bytes(whole)
        expected = _rows(graph, path, "parquet")
        footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        damaged = bytearray(whole)
        damaged[4:footer] = _damage(rng, whole[4:footer])[: footer - 4].ljust(footer - 4, b"\0")
        path.write_bytes(damaged)
        if _try(graph, path, "parquet") is not None:
            assert export(graph) == expected, seed


@pytest.mark.more
@pytest.mark.timeout(3600 if LONG else 600)
def test_damaged_csv_is_refused_or_loaded_record_by_record(graph, tmp_path):
    path, ends = tmp_path / "Person.csv", set()
    for seed in range(ROUNDS):
        rng = _seeded(seed)
        damaged = _damage(rng, _csv(rng))
        path.write_bytes(damaged)
        loaded = _try(graph, path, "csv")
        ends.add(loaded is None)
        if loaded is not None:
            records = csv.reader(io.StringIO(damaged.decode("utf-8-sig"), newline=""), strict=True)
            assert loaded == max(sum(bool(record) for record in records) - 1, 0), seed
    assert ends == {True, False}


@pytest.mark.timeout(3600 if LONG else 600)
def test_damaged_jsonl_is_refused_or_loaded_line_by_line(graph, tmp_path):
    path, ends = tmp_path / "rows.jsonl", set()
    for seed in range(ROUNDS):
        rng = _seeded(seed)
        damaged = _damage(rng, _jsonl(rng))
        path.write_bytes(damaged)
        loaded = _try(graph, path, "jsonl")
        ends.add(loaded is None)
        if loaded is not None:
            assert loaded == sum(bool(line.strip(b" \t\r\n")) for line in damaged.split(b"\n")), seed
    assert ends == {True, False}


@pytest.mark.timeout(3600 if LONG else 600)
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_damaged_packed_files_are_refused_or_loaded(graph, tmp_path, codec):
    for seed in range(ROUNDS // 2):
        rng = _seeded(seed)
        kind = rng.choice(["csv", "jsonl"])
        plain = _csv(rng) if kind == "csv" else _jsonl(rng)
        packed = gzip.compress(plain, 6) if codec == "gzip" else pa.compress(plain, codec="zstd", asbytes=True)
        path = tmp_path / f"rows.{kind}.x"
        damaged = _damage(rng, packed)
        path.write_bytes(damaged)
        loaded = _try(graph, path, kind)
        if loaded and codec == "gzip" and damaged[:2] == packed[:2]:
            # It has a checksum: rows are those that were packed, or none of a file that was cut down to nothing.
            assert loaded % COUNT == 0, seed
