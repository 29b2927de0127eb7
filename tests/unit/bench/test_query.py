"""The query benchmark asks every engine the same, and says so when the answers differ."""

from __future__ import annotations

import pytest
from bench import query
from bench.generate import generate
from bench.query_cases import CASES, parameters_of
from bench.query_engines import ENGINES

SIZE = "XS"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return generate(SIZE, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def work(dataset, tmp_path_factory):
    """A folder with every engine's database that can be made here."""
    folder = tmp_path_factory.mktemp("engines")
    files = query._files(dataset, SIZE, dataset.jsonl.parent)
    for engine in installed().values():
        engine.load(files, folder)
    return folder


@pytest.fixture(scope="module")
def engines(work):
    opened = {name: engine(work) for name, engine in installed().items()}
    yield opened
    for engine in opened.values():
        engine.close()


def installed():
    return {name: engine for name, engine in ENGINES.items() if engine.is_installed()}


def asked(engines, case):
    return {name: engine for name, engine in engines.items() if engine.text_of(case) is not None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_all_engines_give_the_same_rows(engines, dataset, case):
    keys = parameters_of(dataset)[case.keys]
    some = asked(engines, case)
    assert query._compare(case, some, keys)
    assert set(some) == set(asked(engines, case))
    assert any(engines[query.OWN].ask(case, parameters) for parameters in keys)


def test_another_answer_is_reported(engines, dataset, capsys):
    case = CASES[0]

    class Forgetful:
        def ask(self, case, parameters):
            return []

    assert not query._compare(case, {**asked(engines, case), "other": Forgetful()}, parameters_of(dataset)[case.keys])
    assert query.MISMATCH in capsys.readouterr().out


def test_an_engine_that_gives_up_is_left_out(engines, dataset, capsys):
    case = CASES[0]

    class Tired:
        def ask(self, case, parameters):
            raise RuntimeError("interrupted")

    some = {**asked(engines, case), "other": Tired()}
    assert query._compare(case, some, parameters_of(dataset)[case.keys])
    assert "other" not in some
    assert "gave up" in capsys.readouterr().out


def test_every_question_gets_a_line_with_times_and_a_ratio(engines, dataset):
    table = query._warm_table(CASES, engines, parameters_of(dataset), rounds=1)
    assert list(table.columns[0].cells) == [case.title for case in CASES]
    assert query.MISMATCH not in list(table.columns[-1].cells)
    assert all(float(cell) > 0 for cell in table.columns[1].cells)


def test_a_cold_question_is_timed_from_opening_on(work, dataset):
    for title in query.COLD_TITLES:
        assert query._cold(query.OWN, title, work, parameters_of(dataset)) > 0
