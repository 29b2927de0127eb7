"""What hostile input costs: every kind of it is loaded in a process of its own, which tells how far its memory grew."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.load_graph import export, load_lines, make_graph
from tests.session_graph import open_session

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
edge Knows: Person -> Person @card(0..2)
"""
MIB = 1 << 20
ROWS = 30_000
# A warm-up load comes first, so that what is counted is this input and not the libraries.
PROGRAM = """
import json, resource, sys
from pathlib import Path
from tests.load_graph import load_files, load_lines
from tests.session import Session
from omnigraph.errors import OmnigraphError
from omnigraph.store.location import Storage
from omnigraph.txn.settings import TxnSettings

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

root, warm, *files = sys.argv[1:]
with Session.open(Storage.open(root), settings=TxnSettings(durability="relaxed")) as graph:
    for lines in ('{"type":"Person","data":{"name":1}}\\n', '{"edge":"Knows","from":"x","to":"y"}\\n'):
        try:
            load_lines(graph, Path(warm), lines, "append")
        except OmnigraphError:
            pass
    for file in files:
        before, code, listed = peak(), None, 0
        try:
            load_files(graph, [file], "append")
        except OmnigraphError as error:
            code, listed = error.code, len(getattr(error.details, "items", ()))
        print(json.dumps([code, listed, peak() - before]))
"""


def _person(number, **data):
    return json.dumps({"type": "Person", "data": {"name": f"p{number}", **data}}).encode() + b"\n"


def _long_line(path):
    with path.open("wb") as stream:
        stream.write(b'{"type":"Person","data":{"name":"')
        stream.truncate(100 * MIB)


def _packed_long_line(path):
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for _ in range(100):
            stream.write(bytes(MIB))


def _cut_gzip(path):
    whole = gzip.compress(b"".join(map(_person, range(ROWS))), 1)
    path.write_bytes(whole[: len(whole) // 2])


def _cut_zstd(path):
    whole = pa.compress(b"".join(map(_person, range(ROWS))), "zstd", asbytes=True)
    path.write_bytes(whole[: len(whole) // 2])


def _deep(path):
    path.write_bytes(b'{"type":"Person","data":{"name":"a","tags":' + b"[" * (4 * MIB) + b"}}\n")


def _deep_and_closed(path):
    path.write_bytes(b'{"type":"Person","data":{"name":"a","tags":' + b"[" * MIB + b"]" * MIB + b"}}\n")


def _not_utf8(path):
    path.write_bytes(b"".join(_person(number).replace(b'"p', b'"\xff') for number in range(ROWS)))


def _wrong_types(path):
    path.write_bytes(b"".join(_person(number, age="old") for number in range(ROWS)))


def _unknown_types(path):
    path.write_bytes(b"".join(_person(number).replace(b"Person", b"Robot") for number in range(ROWS)))


def _twice(path):
    path.write_bytes(b"".join(_person(number) * 2 for number in range(ROWS // 2)))


def _lost_ends(path):
    path.write_bytes(b"".join(b'{"edge":"Knows","from":"a%d","to":"b"}\n' % number for number in range(ROWS)))


def _too_many_edges(path):
    edges = (b'{"edge":"Knows","from":"p%d","to":"p1"}\n' % number * 3 for number in range(ROWS // 4))
    path.write_bytes(b"".join([*map(_person, range(ROWS // 4)), *edges]))


HOSTILE = {
    "cut.jsonl.gz": (_cut_gzip, "file.access"),
    "cut.jsonl.zst": (_cut_zstd, "file.access"),
    "deep.jsonl": (_deep, "load.bad_rows"),
    "closed.jsonl": (_deep_and_closed, "load.bad_rows"),
    "bytes.jsonl": (_not_utf8, "load.bad_rows"),
    "types.jsonl": (_wrong_types, "load.bad_rows"),
    "unknown.jsonl": (_unknown_types, "load.bad_rows"),
    "twice.jsonl": (_twice, "constraint.violated"),
    "ends.jsonl": (_lost_ends, "constraint.violated"),
    "degrees.jsonl": (_too_many_edges, "constraint.violated"),
    # Last, because they take most: the longest line that is read, once.
    "long.jsonl": (_long_line, "source.too_large"),
    "packed.jsonl.gz": (_packed_long_line, "source.too_large"),
}
LIMIT = 160 * MIB


# A process of its own for each of many inputs; that each is refused or loaded is shown by other tests of the folder.
@pytest.mark.more
def test_memory_stays_bounded_whatever_the_input(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        load_lines(graph, tmp_path / "seed.jsonl", _person(-1), "append")
        before = export(graph)
    for name, (make, _) in HOSTILE.items():
        make(tmp_path / name)
    files = [str(tmp_path / name) for name in HOSTILE]
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "graph"), str(tmp_path / "warm.jsonl"), *files]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    told = dict(zip(HOSTILE, map(json.loads, ended.stdout.splitlines()), strict=True))
    assert {name: code for name, (code, _, _) in told.items()} == {name: code for name, (_, code) in HOSTILE.items()}
    assert max(listed for _, listed, _ in told.values()) == 100
    assert sum(grown for _, _, grown in told.values()) < LIMIT, told
    with open_session(tmp_path / "graph") as graph:
        assert export(graph) == before
