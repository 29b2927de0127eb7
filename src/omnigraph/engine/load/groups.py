"""Problems of rows by what is wrong with them: a mistake that every row makes is one finding and not a thousand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field

from omnigraph.errors import Violation, ViolationGroup
from omnigraph.records import record

# More kinds of mistakes than anybody reads; those beyond are only counted.
_MOST_GROUPS = 100
_PLACES = 5
# What differs between two messages about the same mistake: quoted texts and numbers.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")

_Key = tuple[str, str, str | None, str]


@record(frozen=False, kw_only=False)
class _Group:
    sample: Violation
    count: int = 0
    places: list[str] = field(default_factory=list)


class ProblemGroups:
    """Counts problems by type, column, rule and wording, in the order in which each first comes."""

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}

    def add(self, violation: Violation) -> None:
        """Count a problem."""
        self._count(violation, 1, (violation.place(),))

    def add_groups(self, groups: Iterable[ViolationGroup]) -> None:
        """Count problems that were counted elsewhere, in the order of the input."""
        for group in groups:
            self._count(group.sample, group.count, group.places)

    def finish(self) -> tuple[ViolationGroup, ...]:
        """Return the groups."""
        return tuple(
            ViolationGroup(sample=group.sample, count=group.count, places=tuple(group.places))
            for group in self._groups.values()
        )

    def _count(self, sample: Violation, count: int, places: tuple[str, ...]) -> None:
        key = _key(sample)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= _MOST_GROUPS:
                return
            group = self._groups[key] = _Group(sample)
        group.count += count
        group.places += places[: _PLACES - len(group.places)]


def _key(violation: Violation) -> _Key:
    names = {violation.property, violation.type_name}

    def general(match: re.Match[str]) -> str:
        text = match[0]
        return text if text[1:-1] in names else "#"

    wording = _PARTICULAR.sub(general, violation.message)
    return violation.type_name, violation.rule, violation.property, wording
