"""Which of many cases every run has: the others are left to ``make test-more``."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest


def with_core(cases: Iterable[Any], chosen: Container[str], name_of: Callable[[Any], str] = str) -> list[Any]:
    """Return cases as parameters of a test, those with a chosen name marked as ``core``."""
    return [pytest.param(case, marks=pytest.mark.core) if name_of(case) in chosen else case for case in cases]


def number_of(case: Any) -> str:
    """Return the file and number of a case of the corpus, such as ``walks-08``."""
    return "-".join(case.id.split("-")[:2])
