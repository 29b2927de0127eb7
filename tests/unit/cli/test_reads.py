"""The options of commands that read: what they ask of the session, and which of them are refused."""

from __future__ import annotations

import pytest

from omnigraph.cli.commands.data.query import ReadOptions, Traversal
from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import QueryParameterError, UsageError
from omnigraph.operations.reads import QueryRequest


def request(**given) -> QueryRequest:
    return ReadOptions(query_text="query q() { }", **given).request()


def test_main_is_read_unless_told_otherwise():
    assert (request().branch, request().at, request().params) == ("main", None, None)
    assert request(branch="review").branch == "review"
    assert request(snapshot="01S").at == "01S"


def test_branch_and_snapshot_exclude_each_other():
    with pytest.raises(UsageError, match="--branch and --snapshot cannot be combined"):
        request(branch="main", snapshot="01S")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n=5", 5),
        ("n=-0.5", -0.5),
        ("n=true", True),
        ("n=null", None),
        ('n="5"', "5"),
        ("n=Ann Lee", "Ann Lee"),
        ("n=", ""),
        ("n=a=b", "a=b"),
        ("n=[1, 2]", [1, 2]),
        ("n=2026-01-31", "2026-01-31"),
        ("n=NaN", "NaN"),
        ("n={", "{"),
    ],
)
def test_single_parameter_is_json_or_else_text(text: str, value: object):
    assert request(param=[text]).params == {"n": value}


def test_single_parameters_stand_over_those_given_together():
    assert request(params='{"a": 1, "b": 2}', param=["b=3", "c=4"]).params == {"a": 1, "b": 3, "c": 4}


def test_parameters_that_are_no_object_are_left_for_the_session_to_refuse():
    assert request(params="[1]", param=["a=1"]).params == [1]
    with pytest.raises(QueryParameterError, match="not valid JSON"):
        request(params="{")


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["n"], "invalid --param 'n'"),
        (["=5"], "invalid --param '=5'"),
        (["n=1", "n=2"], "parameter 'n' occurs twice"),
        (["n=\udcff"], "is not valid UTF-8"),
    ],
)
def test_single_parameter_of_another_form_is_refused(texts: list[str], problem: str):
    with pytest.raises(UsageError, match=problem):
        request(param=texts)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("1000", 1000),
        ("4k", 4096),
        ("256M", 256 << 20),
        ("256MiB", 256 << 20),
        ("1.5G", 3 << 29),
        ("1TB", 1 << 40),
    ],
)
def test_memory_is_told_in_bytes_or_larger_units(text: str, size_bytes: int):
    assert ReadOptions(memory=text).limits().memory_bytes == size_bytes


@pytest.mark.parametrize("text", ["", "M", "-1", "1e9", "12X", "\uff11M", "9" * 400])
def test_memory_that_is_no_size_is_refused(text: str):
    with pytest.raises(UsageError, match="invalid memory size"):
        ReadOptions(memory=text).limits()


@pytest.mark.parametrize(("timeout_s", "timeout_ms"), [(0, 0), (2.5, 2500), (0.0001, 1), (1e9, 10**12)])
def test_timeout_is_told_in_seconds(timeout_s: float, timeout_ms: int):
    assert ReadOptions(timeout=timeout_s, mode=Traversal.CSR).limits() == QueryOptions(
        mode="csr", timeout_ms=timeout_ms
    )


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), float("inf"), 1e308])
def test_timeout_that_is_no_time_is_refused(timeout_s: float):
    with pytest.raises(UsageError, match="invalid timeout"):
        ReadOptions(timeout=timeout_s).limits()
