"""The first read of a process that finds projections beside its tables: what it maps, reads and builds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.big_graph import add_people, create_empty
from tests.session import Session
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.store.location import Storage

ONE = "query q($name: String) { match { $p: Person { name: $name }  $p knows $f } return { $f.name } }"
TWO = ONE.replace("} return {", " $f knows $o } return distinct {").replace("$f.name", "$o.age")
SIZES = (24_000, 96_000)
STEPS = (1, 2, 5, 11)
MOST_READS = 16
MOST_BYTES = 512 << 10


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Graphs in which everybody knows four others, optimized."""
    made = {}
    for size in SIZES:
        place = str(tmp_path_factory.mktemp("graph") / "g")
        create_empty(Storage.open(place))
        with Session.open(Storage.open(place), settings=RELAXED) as session:
            everybody = np.arange(size)
            ends = np.concatenate([(everybody + step) % size for step in STEPS])
            add_people(session, size, np.tile(everybody, len(STEPS)), ends)
        with omnigraph.open(place, settings=RELAXED) as graph:
            graph.optimize()
        made[size] = place
    return made


def first_read(place: str, text: str) -> tuple[Any, Any]:
    """Return what the first read of a graph that was just opened cost, and what the topology did for it."""
    with omnigraph.open(place, settings=RELAXED) as graph:
        result = graph.query(text, {"name": "p7"})
        assert result.num_rows == 4 if text is ONE else result.num_rows > 4
        return result.cost, graph.backend.engine.reads.memory.topology.stats


@pytest.mark.parametrize("text", [ONE, TWO], ids=["one hop", "two hops"])
@pytest.mark.parametrize("size", SIZES)
def test_the_first_hops_map_two_files_and_read_as_little_of_a_large_graph_as_of_a_small_one(
    graphs: dict[int, str], size: int, text: str
):
    cost, stats = first_read(graphs[size], text)
    assert cost.calls["projection.map"] == 2
    assert cost.calls["lance.read"] <= MOST_READS
    # What is mapped counts as read, though nobody looks at most of it.
    mapped = [stored(graphs[size], "nodes", "keys"), stored(graphs[size], "edges", "adjacency-out")]
    assert cost.bytes_read - sum(mapped) < MOST_BYTES
    assert (stats.builds, stats.maps) == (0, 1)


def stored(place: str, tables: str, kind: str) -> int:
    """Return the size of a projection."""
    (found,) = Path(place, "__projections", tables).rglob(f"{kind}.*")
    return found.stat().st_size
