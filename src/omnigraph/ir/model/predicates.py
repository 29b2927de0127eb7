"""Predicates: each kind of test has its own class, so that execution never looks at types to choose one."""

from __future__ import annotations

from omnigraph.ir.model.expressions import Column, Comparand, Constant, ParameterRef, Scalarlike
from omnigraph.lang.gq.ast import CompareOp, TextFunction
from omnigraph.records import record


@record
class Compare:
    """``left op right``; a NULL on either side is no match, ``!=`` included."""

    left: Comparand
    op: CompareOp
    right: Comparand

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@record
class ListContains:
    """Membership: ``item`` is one of ``items``."""

    items: Scalarlike
    item: Scalarlike

    def __str__(self) -> str:
        return f"{self.items} has member {self.item}"


@record
class TextContains:
    """Exact substring, no folding, no wildcards."""

    text: Scalarlike
    needle: Scalarlike

    def __str__(self) -> str:
        return f"{self.text} has substring {self.needle}"


@record
class TextStartsWith:
    """Exact prefix, no folding, no wildcards."""

    text: Scalarlike
    prefix: Scalarlike

    def __str__(self) -> str:
        return f"{self.text} has prefix {self.prefix}"


@record
class TextMatch:
    """``search``, ``match_text`` or ``fuzzy``; a NULL query matches nothing."""

    function: TextFunction
    field: Column
    query: Constant | ParameterRef
    max_edits: Constant | ParameterRef | None = None

    def __str__(self) -> str:
        edits = "" if self.max_edits is None else f", {self.max_edits}"
        return f"{self.function}({self.field}, {self.query}{edits})"


@record
class SameEntity:
    """Two variables of one type hold the same node."""

    left: str
    right: str

    def __str__(self) -> str:
        return f"${self.left} is ${self.right}"


Predicate = Compare | ListContains | TextContains | TextStartsWith | TextMatch | SameEntity
