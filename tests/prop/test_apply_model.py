"""Random change logs against a plain-dict graph: cut into any calls, in any order within each, some rows twice.

Rows of upserts and deletes may also be dealt out to calls at random. A call is refused only for edges that have no
nodes yet; these then come with the next one.
"""

from __future__ import annotations

import json
import os
from random import Random

import pytest

from omnigraph.errors import ConstraintViolationError
from tests.load_graph import export, load_files, make_graph
from tests.marks import first
from tests.prop.model_change_log import SCHEMA, dealt, disordered, random_log

SEEDS = first(2, range(200 if os.environ.get("OMNIGRAPH_FUZZ") == "long" else 5))
LENGTH = 60


def rows_of(graph):
    """Return everything by type and id, as the model does."""
    found = {}
    for row in export(graph):
        name, data = row.get("type") or row["edge"], dict(row["data"])
        entity_id = data.pop("id")
        data.pop("name", None)
        data.pop("code", None)
        ends = {end: row[end] for end in ("from", "to") if end in row}
        found.setdefault(name, {})[entity_id] = {**data, **ends}
    return found


def cuts(random, length):
    """Return where a log is cut."""
    places = sorted(random.sample(range(1, length), random.randrange(0, 6)))
    return list(zip([0, *places], [*places, length], strict=True))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [str(path)]


def edges_without_nodes(graph, rows):
    """Return the rows of edges that name a node which the graph does not have."""
    there = rows_of(graph)
    ends = {"Knows": ("Person", "Person"), "In": ("Person", "Team")}
    return [
        row
        for row in rows
        if "edge" in row
        and row.get("_op") != "delete"
        and any(
            row[end] not in there.get(name, {}) for name, end in zip(ends[row["edge"]], ("from", "to"), strict=True)
        )
    ]


def is_balanced(counts, rows):
    told = counts.written + counts.unchanged + counts.superseded + counts.deleted + counts.quarantined
    return counts.rows == rows == told


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_gives_the_graph_of_its_rows_one_by_one_however_it_is_cut(seed, tmp_path):
    random = Random(seed)  # noqa: S311 - a seeded test
    log, states = random_log(random, LENGTH)
    for number, pieces in enumerate([[(0, LENGTH)], cuts(random, LENGTH)]):
        with make_graph(tmp_path / f"graph{number}", SCHEMA) as graph:
            for begin, end in pieces:
                rows = disordered(random, log[begin:end])
                sources = write(tmp_path / "log.jsonl", rows)
                assert is_balanced(load_files(graph, sources, "apply").changes, len(rows))
                assert rows_of(graph) == states[end - 1].rows(), (seed, begin, end)
                again = load_files(graph, sources, "apply")
                assert (again.commit, again.changes.affected) == (None, 0), (seed, begin, end)
                assert is_balanced(again.changes, len(rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_of_upserts_and_deletes_may_be_dealt_out_to_calls_at_random(seed, tmp_path):
    random = Random(seed)  # noqa: S311 - a seeded test
    log, states = random_log(random, LENGTH, ("upsert", "delete"))
    waiting = []
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        for number, rows in enumerate([*dealt(random, log, 40), []]):
            given = waiting + rows
            try:
                done = load_files(graph, write(tmp_path / "log.jsonl", given), "apply")
                waiting = []
            except ConstraintViolationError:
                waiting = edges_without_nodes(graph, given)
                assert waiting, (seed, number, given)
                given = [row for row in given if row not in waiting]
                done = load_files(graph, write(tmp_path / "log.jsonl", given), "apply")
            assert is_balanced(done.changes, len(given))
            again = load_files(graph, write(tmp_path / "log.jsonl", given), "apply")
            assert (again.commit, again.changes.affected) == (None, 0), (seed, number)
        assert waiting == []
        assert rows_of(graph) == states[-1].rows(), seed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_delete_may_come_between_what_was_written_after_it_and_the_row_that_writes_its_node_again(seed, tmp_path):
    log, states = random_log(Random(seed), LENGTH, ("upsert", "delete"))  # noqa: S311 - a seeded test
    rows_by_node = {}
    for row in log:
        if "type" in row:
            rows_by_node.setdefault((row["type"], *row["data"].values())[:2], []).append(row)
    split = [
        (rows[at], rows[at + 1 :])
        for rows in rows_by_node.values()
        for at in range(1, len(rows) - 1)
        if rows[at].get("_op") == "delete" and rows[at - 1].get("_op") != "delete" and rows[-1].get("_op") != "delete"
    ]
    assert split
    for number, (delete, later) in enumerate(split):
        first = [row for row in log if row is not delete and not any(row is other for other in later)]
        with make_graph(tmp_path / f"graph{number}", SCHEMA) as graph:
            for rows in (first, [delete], later):
                done = load_files(graph, write(tmp_path / "log.jsonl", rows), "apply")
                assert is_balanced(done.changes, len(rows))
            assert rows_of(graph) == states[-1].rows(), (seed, delete)
