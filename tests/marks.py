"""Which of many cases ``make test`` has: the others are left to ``make test-more``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

# Cases on an object store cost several times as much as those on disk.
STORES = ("local", pytest.param("s3", marks=pytest.mark.more))


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases as parameters of a test; only the first ``count`` are not marked as ``more``."""
    return [case if number < count else _marked(case, pytest.mark.more) for number, case in enumerate(cases)]


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases as parameters of a test; only every ``step``-th one, and the first, is not marked as ``more``."""
    return [_marked(case, pytest.mark.more) if number % step else case for number, case in enumerate(cases)]


def small(most: int, searches: Iterable[tuple[Any, int]]) -> list[Any]:
    """Return searches with the number of states that they see; only those that see few are not marked as ``more``."""
    return [pytest.param(*one, marks=pytest.mark.more) if one[1] > most else one for one in searches]


def with_core(cases: Iterable[Any], chosen: Collection[str], name_of: Callable[[Any], str] = str) -> list[Any]:
    """Return cases on Spark as parameters of a test, those with a chosen name marked as ``core``."""
    return [_marked(case, pytest.mark.core) if name_of(case) in chosen else case for case in cases]


def number_of(case: Any) -> str:
    """Return the file and number of a case of the corpus, such as ``walks-08``."""
    return "-".join(case.id.split("-")[:2])


def _marked(case: Any, mark: pytest.MarkDecorator) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, mark])
    return pytest.param(*case, marks=mark) if isinstance(case, tuple) else pytest.param(case, marks=mark)
