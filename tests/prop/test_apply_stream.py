"""A long change log in micro-batches: five events to a key, a tenth of them deletes, in any order.

``make change-log`` takes a million events. However the log is split, the graph is the one of plain dictionaries: cut
in the order of its sequences, or shuffled, so that the sequences of a key go back from call to call.
"""

from __future__ import annotations

import os
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.load_graph import make_graph

EVENTS = int(os.environ.get("OMNIGRAPH_EVENTS") or 5_000)
PER_KEY = 5
SCHEMA = "node Item { code: String @key  value: I64?  note: String? }"
COLUMNS = pa.schema(
    [("code", pa.string()), ("value", pa.int64()), ("note", pa.string()), ("_op", pa.string()), ("_seq", pa.int64())]
)


@pytest.fixture(scope="module")
def log():
    """The events in the order of their sequences."""
    random = Random(19)  # noqa: S311 - a seeded generator is what makes the run repeatable
    keys = [f"k{number}" for number in range(EVENTS // PER_KEY) for _ in range(PER_KEY)]
    random.shuffle(keys)
    events = []
    for at, key in enumerate(keys):
        if random.random() < 0.1:
            events.append((key, None, None, "delete", 3 * at))
        else:
            note = random.choice((None, "a", "\u00fc"))
            events.append((key, random.randrange(-9, 1 << 50), note, "upsert", 3 * at))
    return events


@pytest.fixture(scope="module")
def wanted(log):
    """What the graph holds in the end."""
    rows = {}
    for key, value, note, op, _ in log:
        if op == "delete":
            rows.pop(key, None)
        else:
            rows[key] = value, note
    return rows


def write(path, events):
    columns = zip(*events, strict=True)
    pq.write_table(
        pa.table([pa.array(values, one.type) for values, one in zip(columns, COLUMNS, strict=True)], COLUMNS), path
    )
    return [str(path)]


def rows_of(graph):
    found = graph.snapshot().table("node:Item").read(["code", "value", "note"]).to_pydict()
    return dict(zip(found["code"], zip(found["value"], found["note"], strict=True), strict=True))


@pytest.mark.parametrize("order", ["in order", "shuffled"])
@pytest.mark.parametrize("calls", [1, 7, 40], ids="{} calls".format)
@pytest.mark.timeout(3600)
def test_a_log_gives_the_graph_of_plain_dictionaries_however_it_is_split(calls, order, log, wanted, tmp_path):
    random = Random(calls)  # noqa: S311 - a seeded generator is what makes the run repeatable
    given = list(log)
    if order == "shuffled":
        random.shuffle(given)
    places = sorted(random.sample(range(1, len(given)), calls - 1))
    total = 0
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        for number, (begin, end) in enumerate(zip([0, *places], [*places, len(given)], strict=True), start=1):
            events = given[begin:end]
            random.shuffle(events)
            sources = write(tmp_path / "Item.parquet", events)
            done = graph.load(sources, "apply", batch=("log", number))
            counts = done.changes
            assert counts.rows == counts.written + counts.unchanged + counts.superseded + counts.deleted
            total += counts.rows
            if number % 5 == 0:
                # What a caller does that lost the answer.
                again = graph.load(sources, "apply", batch=("log", number))
                assert (again.is_repeat, again.commit) == (True, done.commit)
        assert total == len(given)
        assert rows_of(graph) == wanted
        assert len(graph.snapshot().state.sequences["log"].runs) <= 6
