"""Engines that reads share: started once, limited anew for each read, gone with the graph."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.engine import relational
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.output import relational as output
from omnigraph.engine.relational import EnginePool, RelationalEngine
from omnigraph.errors import QueryRuntimeError

SCHEMA = "node P { slug: String @key  age: I64? }"
ROWS = "".join(f'{{"type": "P", "data": {{"slug": "p{at}", "age": {at}}}}}\n' for at in range(5))
MIB = 1 << 20


@pytest.fixture
def started(monkeypatch):
    """The engines that are started while the test runs, with few rows as with many."""
    monkeypatch.setattr(output, "MOST_ROWS", 0)
    engines = []
    start = RelationalEngine.start

    def noted(memory_bytes):
        engines.append(start(memory_bytes))
        return engines[-1]

    monkeypatch.setattr(relational.RelationalEngine, "start", noted)
    return engines


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, ROWS)
    opened = open_session(tmp_path / "graph")
    yield opened
    opened.close()


def read(session, output="distinct { $p.age as age } order { age }", **options):
    return session.query(f"query q() {{ match {{ $p: P }} return {output} }}", options=QueryOptions(**options))


def test_reads_one_after_the_other_share_an_engine_that_goes_with_the_graph(session, started):
    for _ in range(10):
        assert read(session).to_arrow().column("age").to_pylist() == [0, 1, 2, 3, 4]
    (engine,) = started
    assert engine.folder.path.is_dir()
    session.close()
    assert not engine.folder.path.exists()
    with pytest.raises(duckdb.ConnectionException):
        engine.connection.execute("SELECT 1")


def test_an_engine_that_a_read_failed_in_is_not_used_again(session, started):
    session.mutate('query q() { insert P { slug: "x", age: 9223372036854775807 } }')
    with pytest.raises(QueryRuntimeError, match="sum_int does not fit"):
        read(session, "{ sum_int($p.age) as total }").to_arrow()
    assert read(session).num_rows == 6
    failed, other = started
    assert not failed.folder.path.exists()
    assert other.folder.path.is_dir()


def test_each_read_has_its_own_limit_of_memory(started):
    pool = EnginePool()
    limits = []
    for memory_bytes in (64 * MIB, 256 * MIB):
        engine = pool.take(memory_bytes)
        limits += engine.connection.execute("SELECT current_setting('memory_limit')").fetchone()
        pool.give_back(engine)
    pool.close()
    assert limits == ["64.0 MiB", "256.0 MiB"]
    assert len(started) == 1


def test_engines_in_use_at_once_are_different_ones_and_few_are_kept(started):
    pool = EnginePool()
    used = [pool.take(64 * MIB) for _ in range(4)]
    assert len({id(engine.connection) for engine in used}) == 4
    for engine in used:
        pool.give_back(engine)
    assert sum(engine.folder.path.exists() for engine in used) == 2
    pool.close()
    assert not any(engine.folder.path.exists() for engine in used)


def test_an_engine_that_comes_back_after_the_end_is_ended():
    pool = EnginePool()
    engine = pool.take(64 * MIB)
    pool.close()
    assert engine.connection.sql("SELECT 1").to_arrow_table().num_rows == 1
    pool.give_back(engine)
    assert not engine.folder.path.exists()


def test_a_pool_that_is_forgotten_leaves_no_folder_behind():
    pool = EnginePool()
    engine = pool.take(64 * MIB)
    pool.give_back(engine)
    del pool
    assert not engine.folder.path.exists()


def test_a_forked_process_uses_none_of_the_engines_of_its_parent(monkeypatch, started):
    pool = EnginePool()
    pool.give_back(pool.take(64 * MIB))
    parent = relational.os.getpid()
    monkeypatch.setattr(relational.os, "getpid", lambda: parent + 1)
    assert pool.take(64 * MIB) is started[1]
    assert started[0].folder.path.is_dir()
    started[0].close()
    started[1].close()


def test_what_an_engine_was_given_is_unknown_to_the_next_read():
    pool = EnginePool()
    engine = pool.take(64 * MIB)
    cursor = engine.connection.cursor()
    cursor.register("rows", pa.table({"x": [1]}))
    assert cursor.sql("SELECT * FROM rows").to_arrow_table().num_rows == 1
    cursor.close()
    pool.give_back(engine)
    with pytest.raises(duckdb.CatalogException):
        pool.take(64 * MIB).connection.cursor().sql("SELECT * FROM rows")
    engine.close()
