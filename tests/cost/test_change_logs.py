"""Calls of an apply with sequences: the same however many calls of the stream came before."""

import json

import pytest

from omnigraph.engine.open_graph import init_graph
from omnigraph.runtime import LRUCache
from omnigraph.store import sequence_runs
from omnigraph.store.location import Storage
from omnigraph.testing.s3 import measure
from omnigraph.txn.settings import TxnSettings
from tests.session import Session

SCHEMA = "node Item { code: String @key  value: I64? }"
RELAXED = TxnSettings(durability="relaxed")
# What is remembered is in memory: a run of its own, and now and then one in the place of several.
OWN_PUTS, MERGE_PUTS = 1, 1
RUNS = 6


@pytest.fixture
def storage(endpoint):
    place = Storage.open(endpoint.fresh_prefix(), endpoint.storage_options)
    init_graph(place, SCHEMA, settings=RELAXED)
    return place


def apply(session, tmp_path, number, seq, *, ordered=True):
    row = {"type": "Item", "data": {"code": f"k{number % 7}", "value": number}} | ({"_seq": seq} if ordered else {})
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n")
    return session.load([str(tmp_path / "log.jsonl")], "apply", batch=("log", number))


def counted(measured):
    """Return how often objects of remembered sequences were read and written."""
    own = [call for call in measured.calls if "__sequences/" in call.key]
    reads = sum(call.operation in {"GET", "HEAD"} for call in own)
    return reads, len(own) - reads, len(measured.calls)


@pytest.mark.more
def test_what_is_remembered_costs_a_bounded_number_of_calls_however_many_came_before(
    storage, endpoint, tmp_path, monkeypatch
):
    windows = []
    with Session.open(storage, settings=RELAXED) as session:
        for number in range(1, 91):
            with measure(endpoint) as measured:
                apply(session, tmp_path, number, number)
            windows.append(counted(measured))
    assert {reads for reads, _, _ in windows} == {0}
    assert {puts for _, puts, _ in windows} == {OWN_PUTS, OWN_PUTS + MERGE_PUTS}
    early, late = windows[10:40], windows[60:90]
    assert sum(puts for _, puts, _ in late) <= sum(puts for _, puts, _ in early) + 2
    # A process that comes anew reads each run once, and a late row writes none.
    monkeypatch.setattr(sequence_runs, "_cache", LRUCache(max_entries=64))
    with Session.open(storage, settings=RELAXED) as session:
        with measure(endpoint) as cold:
            done = apply(session, tmp_path, 91, 1)
        assert done.changes.superseded == 1
        reads, puts, _ = counted(cold)
        assert (0 < reads <= RUNS, puts) == (True, 0)


def test_a_log_without_sequences_reads_and_writes_nothing_of_it(storage, endpoint, tmp_path):
    with Session.open(storage, settings=RELAXED) as session:
        apply(session, tmp_path, 1, 1)
        with measure(endpoint) as measured:
            apply(session, tmp_path, 2, None, ordered=False)
    assert counted(measured)[:2] == (0, 0)
