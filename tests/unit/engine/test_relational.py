"""The relational engine: reads take turns on one that is open, and nothing of it stays behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.unit.engine.query.graphs import open_ring

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.relational import RelationalEngines
from omnigraph.errors import QueryRuntimeError

DISTINCT = "query q() { match { $p: Person } return distinct { $p.age % 2 as parity } }"
FAILING = "query q() { match { $p: Person } return distinct { 1 / ($p.age - $p.age) as x } }"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return Path(tempfile.gettempdir())


def test_reads_one_after_the_other_open_one_engine_and_closing_the_graph_ends_it(tmp_path, folder):
    with open_ring(tmp_path / "graph", 10) as session:
        engines = session.engine.reads.memory.engines
        for _ in range(3):
            assert sorted(row["parity"] for row in session.query(DISTINCT).rows()) == [0, 1]
        assert engines.opened == 1
        assert len(list(folder.iterdir())) == 1
        with pytest.raises(QueryRuntimeError):
            session.query(FAILING)
        assert list(folder.iterdir()) == []
        session.query(DISTINCT, options=QueryOptions(memory_bytes=64 << 20))
        assert engines.opened == 2
    assert list(folder.iterdir()) == []


def test_only_so_many_engines_wait(folder):
    engines = RelationalEngines(most_idle=1)
    taken = [engines.take(64 << 20) for _ in range(3)]
    for engine in taken:
        engines.give_back(engine)
    assert len(list(folder.iterdir())) == 1
    engine = engines.take(32 << 20)
    assert engine.connection.execute("SELECT current_setting('memory_limit')").fetchone() == ("32.0 MiB",)
    (engine.folder.path / "spilled").touch()
    engines.give_back(engine)
    assert list(folder.iterdir()) == []
    engines.close()


def test_engines_that_nobody_closed_leave_nothing(folder):
    engines = RelationalEngines()
    engines.give_back(engines.take(64 << 20))
    assert len(list(folder.iterdir())) == 1
    del engines
    assert list(folder.iterdir()) == []
