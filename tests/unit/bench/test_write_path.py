"""The benchmark of writes counts what the graph really holds afterwards."""

from __future__ import annotations

import pytest
from bench.write_path import document, ratio_of, targets_table, writers_table
from bench.write_rows import WALL_TARGETS, everyday
from bench.writers import Place, Task, crew, prepare


@pytest.fixture
def place(tmp_path):
    return Place(uri=f"{tmp_path}/g")


def task(place, work, first, **changed):
    given = {"branch": "main", "threads": 1, "seconds": 0.5, "group_commit": None, "durability": "relaxed", **changed}
    return Task(place=place, work=work, first=first, **given)


@pytest.mark.more
def test_the_benchmark_of_writers_counts_what_the_graph_holds(place):
    prepare(place, 2)
    with place.open() as graph:
        before = len(list(graph.log(limit=5000)))
    with crew(2) as writers:
        cells = {
            "insert, 1 process, one branch": writers.run([task(place, "insert", 0)]),
            "insert, 2 processes, one branch": writers.run([task(place, "insert", number) for number in range(2)]),
            "update, 2 processes, own branches": writers.run(
                [task(place, "update", number, branch=f"writer-{number}") for number in range(2)]
            ),
            "insert, 4 threads, one branch": writers.run([task(place, "insert", 0, threads=4, group_commit=True)]),
        }
    assert [len(cell.commits) for cell in cells.values()] == [1, 2, 2, 4]
    assert not any(cell.errors for cell in cells.values())
    on_main = [cell for what, cell in cells.items() if what.endswith("one branch")]
    # Each process wrote once before the clock ran.
    with place.open() as graph:
        assert len(list(graph.log(limit=5000))) - before == sum(len(cell.times_ms) for cell in on_main) + 4
    alone = cells["insert, 1 process, one branch"]
    assert alone.counts["commits"] == len(alone.times_ms)
    assert all(sum(cell.commits) <= len(cell.times_ms) for cell in cells.values())
    assert ratio_of(cells, "insert, 1 process, one branch") == 1.0
    assert ratio_of(cells, "update, 2 processes, own branches") is None
    assert writers_table("local", cells, 0.5).row_count == 4
    assert targets_table({"local": cells}).row_count == 7
    assert document({}, {}, {"local": cells})["writers"]["local"].keys() == cells.keys()


@pytest.mark.more
def test_every_everyday_write_is_timed(place):
    assert everyday(place, 2).keys() == WALL_TARGETS.keys()
