"""The two ways in which a read has no answer."""

from __future__ import annotations

from typing import Literal as Choice

Reason = Choice["overflow", "division", "domain", "cast", "hops", "amount", "fraction"]


class Illegal(Exception):  # noqa: N818 - a verdict on a text, told apart from errors of the evaluator itself
    """The text breaks a rule that is checked before anything runs."""


class Fault(Exception):  # noqa: N818 - a verdict on a row, told apart from errors of the evaluator itself
    """A row for which an expression has no value: a runtime error of the read.

    ``is_certain`` is False where the language leaves it open whether the row is looked at.
    """

    def __init__(self, reason: Reason, text: str, *, is_certain: bool = True) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.is_certain = is_certain
