"""Reads of the second edition on real Spark give the rows, the order, the types and the errors of the local engine."""

from __future__ import annotations

import os
from functools import partial

import pytest

from omnigraph.spark.query import query
from tests.corpus.cases import read_expectation
from tests.corpus.test_reads_2 import _parameters
from tests.read_contract import READS, assert_same, corpus_session, outcome

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
CHOSEN = [case for case in READS if "path " not in case.sections["query"]]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with corpus_session(tmp_path_factory.mktemp("reads") / "graph") as opened:
        yield opened


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.id)
def test_read_gives_on_spark_what_it_gives_in_process(case, session, spark):
    text, params = case.sections["query"], _parameters(case)
    expected = outcome(partial(session.query, text, params, params_form="strict"))
    found = outcome(partial(query, session, text, params, params_form="strict", spark=spark))
    assert_same(found, expected, is_ordered=read_expectation(case.sections["expect"]).verdict == "rows")
