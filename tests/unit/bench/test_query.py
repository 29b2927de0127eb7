"""The benchmarks of reads ask every engine the same, and say so when the answers differ."""

from __future__ import annotations

import pytest
from bench import peers, query
from bench.generate import generate
from bench.query_cases import CASES, parameters_of
from bench.query_engines import ENGINES
from bench.workers import EVERY_ENGINE, Worker

SIZE = "XS"

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return generate(SIZE, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def files(dataset):
    return query.files_of(dataset, SIZE, dataset.jsonl.parent)


@pytest.fixture(scope="module")
def work(files, tmp_path_factory):
    """A folder with every engine's database that can be made here."""
    folder = tmp_path_factory.mktemp("engines")
    for engine in installed().values():
        with Worker(engine, folder) as worker:
            worker.load(files)
    return folder


@pytest.fixture(scope="module")
def engines(work):
    with query.opened(installed(), work) as opened:
        yield opened


def installed():
    return {name: engine for name, engine in EVERY_ENGINE.items() if engine.is_installed()}


def asked(engines, case):
    return {name: engine for name, engine in engines.items() if engine.text_of(case) is not None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_all_engines_give_the_same_rows(engines, dataset, case):
    keys = parameters_of(dataset)[case.keys]
    some = asked(engines, case)
    assert query.compare(case, some, keys)
    assert set(some) == set(asked(engines, case))
    assert any(engines[query.OWN].ask(case, parameters) for parameters in keys)


def test_another_answer_is_reported(engines, dataset, capsys):
    case = CASES[0]

    class Forgetful:
        def ask(self, case, parameters):
            return []

        def is_comparable(self, case):
            return True

    assert not query.compare(case, {**asked(engines, case), "other": Forgetful()}, parameters_of(dataset)[case.keys])
    assert query.MISMATCH in capsys.readouterr().out


def test_an_engine_that_gives_up_is_left_out(engines, dataset, capsys):
    case = CASES[0]

    class Tired:
        def ask(self, case, parameters):
            raise RuntimeError("interrupted")

        def is_comparable(self, case):
            return True

    some = {**asked(engines, case), "other": Tired()}
    assert query.compare(case, some, parameters_of(dataset)[case.keys])
    assert "other" not in some
    assert "gave up" in capsys.readouterr().out


def test_every_question_gets_a_line_with_times_and_a_ratio(engines, dataset):
    table = query._warm_table(CASES, engines, parameters_of(dataset), rounds=1)
    assert list(table.columns[0].cells) == [case.title for case in CASES]
    assert query.MISMATCH not in list(table.columns[-1].cells)
    assert all(float(cell) > 0 for cell in table.columns[1].cells)


def test_the_table_of_peers_has_a_row_for_all_that_is_promised_and_a_column_for_who_is_missing(
    files, dataset, tmp_path, monkeypatch
):
    monkeypatch.setattr(ENGINES["kuzu"], "is_installed", classmethod(lambda cls: False))
    monkeypatch.setattr(ENGINES["ladybug"], "is_installed", classmethod(lambda cls: False))
    monkeypatch.setattr(peers, "FRESH_ROUNDS", 1)
    head, _, *rows = peers.make_report(EVERY_ENGINE, files, parameters_of(dataset), tmp_path, SIZE, rounds=1)
    assert "| omnigraph | ladybug (not installed) | kuzu (not installed) | DuckDB | numpy | Lance |" in head
    cells = {row.split(" | ")[0]: row.split(" | ") for row in rows}
    assert {read.work for read in peers.READS} < {name.removeprefix("| ") for name in cells}
    assert len(cells) == len(rows) == len(peers.READS) + 9
    assert not any(query.MISMATCH in row for row in rows)
    assert all(row[1] != peers.NOTHING and row[2] == row[3] == peers.NOTHING for row in cells.values())


def test_what_ends_a_worker_ends_its_process(work):
    worker = Worker(ENGINES[query.OWN], work)
    assert worker.open() > 0
    held = worker.memory()
    assert held["private_bytes"] is None or held["private_bytes"] > 0
    worker.close()
    assert worker._process.returncode == 0
