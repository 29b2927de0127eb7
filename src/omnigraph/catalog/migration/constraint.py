"""A declared constraint as a value of its own, so that two versions of a type can be compared as sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from omnigraph.catalog.migration.resolve import AnyType
from omnigraph.catalog.model import Bound, InterfaceType
from omnigraph.lang.parsing import quote_string
from omnigraph.records import record
from omnigraph.values.decimals import canonical_decimal

ConstraintKind = Literal["Key", "Unique", "Index", "Range", "Check"]

_KIND_BY_WORD: Mapping[str, ConstraintKind] = {"key": "Key", "unique": "Unique", "index": "Index"}


@record
class DeclaredConstraint:
    """One constraint of a node or edge type.

    ``columns`` are sorted, for keys too: the order of a key is part of how ids are written, not of what is
    constrained, and it cannot be changed by reordering the words of an accepted key.
    """

    kind: ConstraintKind
    columns: tuple[str, ...]
    low: Bound | None = None
    high: Bound | None = None
    pattern: str | None = None

    @property
    def is_over_one_property(self) -> bool:
        """Whether it could as well be written on a property; the ends of an edge are none."""
        on_property = self.kind in ("Key", "Unique", "Index") and len(self.columns) == 1
        return on_property and self.columns[0] not in ("src", "dst")

    def renamed(self, names: Mapping[str, str]) -> DeclaredConstraint:
        """Return this constraint with its columns called as ``names`` says."""
        return replace(self, columns=tuple(sorted(names.get(column, column) for column in self.columns)))

    def follows_from(self, other: DeclaredConstraint) -> bool:
        """Whether rows that obey ``other`` obey this one too, so that they need not be checked.

        >>> narrow = DeclaredConstraint(kind="Range", columns=("age",), low=0, high=10)
        >>> wide = DeclaredConstraint(kind="Range", columns=("age",), low=0, high=None)
        >>> wide.follows_from(narrow), narrow.follows_from(wide)
        (True, False)
        """
        if self.kind == "Unique" and other.kind in ("Unique", "Key"):
            return set(other.columns) <= set(self.columns)
        if self.kind != "Range" or other.kind != "Range" or self.columns != other.columns:
            return False
        is_low_enough = self.low is None or (other.low is not None and other.low >= self.low)
        return is_low_enough and (self.high is None or (other.high is not None and other.high <= self.high))

    def sort_key(self) -> tuple[str, tuple[str, ...], str]:
        """Order of listing: by kind, columns, then the written form."""
        return (self.kind, self.columns, str(self))

    def to_json(self) -> dict[str, Any]:
        """The form of plans: the kind as the only key, over columns or over bounds and pattern."""
        if self.kind == "Range":
            ends = {"min": self.low, "max": self.high}
            # As text, because readers of JSON round what has many digits.
            shown = {name: _bound_word(end) if isinstance(end, Decimal) else end for name, end in ends.items()}
            return {"Range": {"property": self.columns[0], **shown}}
        if self.kind == "Check":
            return {"Check": {"property": self.columns[0], "pattern": self.pattern}}
        return {self.kind: list(self.columns)}

    def __str__(self) -> str:
        """The constraint as the schema language writes it in a body.

        >>> str(DeclaredConstraint(kind="Range", columns=("age",), low=0, high=None))
        '@range(age, 0..)'
        """
        arguments = list(self.columns)
        if self.kind == "Range":
            low, high = ("" if end is None else _bound_word(end) for end in (self.low, self.high))
            arguments.append(f"{low}..{high}")
        elif self.pattern is not None:
            arguments.append(quote_string(self.pattern))
        return f"@{self.kind.lower()}({', '.join(arguments)})"


def _bound_word(bound: Bound) -> str:
    return canonical_decimal(bound) if isinstance(bound, Decimal) else str(bound)


def declared_constraints(owner: AnyType) -> frozenset[DeclaredConstraint]:
    """Return what ``owner`` declares, or, for an interface, what it hands on to the nodes that implement it."""
    if isinstance(owner, InterfaceType):
        return frozenset(
            DeclaredConstraint(kind=_KIND_BY_WORD[word], columns=(name,)) for name, word in owner.constraints
        )
    found: set[DeclaredConstraint] = set()
    if owner.key is not None:
        found.add(DeclaredConstraint(kind="Key", columns=tuple(sorted(owner.key))))
    found.update(DeclaredConstraint(kind="Unique", columns=tuple(sorted(columns))) for columns in owner.uniques)
    found.update(DeclaredConstraint(kind="Index", columns=tuple(sorted(columns))) for columns in owner.indexes)
    found.update(
        DeclaredConstraint(kind="Range", columns=(rule.property,), low=rule.low, high=rule.high)
        for rule in owner.ranges
    )
    found.update(
        DeclaredConstraint(kind="Check", columns=(rule.property,), pattern=rule.pattern) for rule in owner.checks
    )
    return frozenset(found)
