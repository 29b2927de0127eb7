"""Lines of files as tasks read them: whatever ranges are cut, each line comes once, as it is."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest

from omnigraph.spark.steps.buckets import BucketPart, LineReader

TEXT = "name,age\r\nLöwe,1\n\n漢字,2\nlast,3"
LINES = ["name,age", "Löwe,1", "", "漢字,2", "last,3"]


def read(reader):
    numbers = pa.record_batch([pa.array(range(len(reader.groups)), pa.int64())], names=["id"])
    return [line for batch in reader(iter([numbers])) for line in batch.column("value").to_pylist()]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 100])
def test_ranges_cut_anywhere_give_every_line_once(tmp_path, step):
    place = tmp_path / "a.csv"
    place.write_bytes(TEXT.encode())
    size = place.stat().st_size
    parts = tuple(
        BucketPart(path=str(place), start=start, end=min(start + step, size)) for start in range(0, size, step)
    )
    assert read(LineReader(groups=(parts,), storage={})) == LINES
    assert read(LineReader(groups=tuple((part,) for part in parts), storage={})) == LINES


def test_first_lines_of_all_files_but_one_are_left_out(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    paths[0].write_bytes(("\ufeff" + TEXT).encode())
    paths[1].write_bytes(gzip.compress(("# about\n\n" + TEXT).encode()))
    groups = tuple((BucketPart(path=str(path)),) for path in paths)
    reader = LineReader(groups=groups, storage={}, header=str(paths[0]), comment="#")
    assert read(reader) == [*LINES, "# about", "", *LINES[1:]]


def test_other_encodings_separators_and_whole_files(tmp_path):
    place = tmp_path / "a.txt"
    groups = ((BucketPart(path=str(place)),),)
    place.write_bytes(TEXT.encode("utf-16"))
    assert read(LineReader(groups=groups, storage={}, encoding="utf-16")) == LINES
    place.write_bytes(b"a|b\n|c")
    assert read(LineReader(groups=groups, storage={}, separator="|")) == ["a", "b\n", "c"]
    assert read(LineReader(groups=groups, storage={}, is_whole=True)) == ["a|b\n|c"]
    place.write_bytes(b"a\xffb")
    assert read(LineReader(groups=groups, storage={})) == ["a\ufffdb"]
