"""The benchmark's graph is the same every time, fits its schema, and looks like a social graph."""

import hashlib

import numpy as np
import pyarrow.parquet as pq
import pytest
from bench.generate import EDGES, SCHEMA_PATH, SIZES, Stream, generate, make_tables
from tests.session_graph import create_graph, open_session, read_graph

from omnigraph.engine.load import load
from omnigraph.values import MAIN, BranchName

pytestmark = pytest.mark.more

XS = SIZES["XS"]
# Changes only together with what the benchmark measures: figures before and after are then not of the same graph.
DIGEST = "8f1f4739115d91765f8706f7154eec107cdf417f869af9f9fac9c86f103db520"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return generate("XS", tmp_path_factory.mktemp("xs"))


def test_the_same_seed_gives_the_same_bytes(dataset, tmp_path):
    again = generate("XS", tmp_path)
    assert again.jsonl.read_bytes() == dataset.jsonl.read_bytes()
    assert hashlib.sha256(dataset.jsonl.read_bytes()).hexdigest() == DIGEST
    for ours, theirs in zip(dataset.parquet, again.parquet, strict=True):
        assert pq.read_table(ours).equals(pq.read_table(theirs))


def test_another_seed_gives_another_graph(dataset, tmp_path):
    assert generate("XS", tmp_path, seed=1).jsonl.read_bytes() != dataset.jsonl.read_bytes()


def test_files_that_are_there_are_not_made_again(tmp_path):
    made = generate("XS", tmp_path)
    made.jsonl.write_text("kept")
    assert generate("XS", tmp_path).jsonl.read_text() == "kept"


def test_sizes_are_what_they_are_called(dataset):
    assert len(dataset.jsonl.read_bytes().splitlines()) == XS.records
    assert sum(pq.read_metadata(path).num_rows for path in dataset.parquet) == XS.records
    small, medium = SIZES["S"], SIZES["M"]
    assert small.persons + small.organisations + small.posts == 10_000
    assert small.records == 270_000
    assert (medium.persons, medium.knows, medium.records) == (100_000, 2_000_000, 3_300_000)


def test_degrees_follow_a_power_law():
    counts = np.sort(np.bincount(Stream(1).skewed(50_000, 1000, 0.8)))[::-1]
    assert counts[0] > 20 * np.median(counts)
    assert counts[:100].sum() > counts.sum() / 3
    assert counts.min() > 0


def test_nobody_knows_themselves_and_everybody_has_one_employer():
    tables = make_tables(XS)
    knows, works_at = tables["Knows"], tables["WorksAt"]
    assert not any(
        left == right for left, right in zip(*(knows[end].to_pylist() for end in ("from", "to")), strict=True)
    )
    assert works_at["from"].to_pylist() == tables["Person"]["slug"].to_pylist()


def test_both_forms_load_as_the_same_graph(dataset, tmp_path):
    graphs = []
    for name, sources in (("lines", [str(dataset.jsonl)]), ("columns", [str(path) for path in dataset.parquet])):
        create_graph(tmp_path / name, SCHEMA_PATH.read_text(encoding="utf-8"))
        with open_session(tmp_path / name) as session:
            branch_writer = session.store.branch_writer(BranchName(MAIN))
            assert load(branch_writer, session.catalog(), sources, "append").total == XS.records
            graphs.append({key: _comparable(key, rows) for key, rows in read_graph(session).items()})
    assert graphs[0] == graphs[1]
    assert sum(map(len, graphs[0].values())) == XS.records


def _comparable(table_key, rows):
    """Edges get made-up ids, so that only what they say can be compared."""
    if table_key.removeprefix("edge:") in EDGES:
        return sorted(map(repr, rows.values()))
    return rows
