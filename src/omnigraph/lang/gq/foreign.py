"""Words and marks of other query languages, and what to write here instead."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from omnigraph.lang.foreign_types import foreign_type
from omnigraph.lang.parsing import nearest_name
from omnigraph.values.patterns import late_pattern

_TRAVERSAL = "write a traversal as '$a knows $b'"
_AGGREGATED = "leave it out: rows are grouped by every returned expression without an aggregate"

_WORDS = {
    "between": "write '… >= a and … <= b'",
    "by": "write 'order { … }'",
    "create": "write 'insert'",
    "from": "write 'match { … }'",
    "group": _AGGREGATED,
    "ilike": "write 'lower(…) contains …', or 'matches' with a regular expression",
    "is": "write 'is null' or 'is not null'",
    "join": _TRAVERSAL,
    "on": "write 'if absent' behind the braces, or 'upsert' instead of 'insert'",
    "like": "write 'contains', 'starts_with', 'ends_with' or 'matches'",
    "merge": "write 'upsert'",
    "regexp": "write 'matches'",
    "rlike": "write 'matches'",
    "select": "write 'match { … } return { … }'",
    "skip": "write 'offset'",
    "unwind": "write 'each $item in …'",
    "where": "in a match, a condition is a clause of its own: write '$p.age > 30'",
}

# Two marks that mean one thing elsewhere, told by the second.
_DOUBLE_MARKS = {"==": "write '='", "<>": "write '!='", "||": "write 'or'", "&&": "write 'and'", "->": _TRAVERSAL}
_MARKS = {"&": "write 'and'", "|": "write 'or'", "!": "write 'not'", ";": "remove it: nothing separates statements"}
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_EDGE_IN_BRACKETS = late_pattern(r"-\s*\[\s*[A-Za-z0-9_]*\s*\Z")
_NODE_IN_PARENTHESES = late_pattern(r"\(\s*[A-Za-z0-9_]*\s*\Z")
_LIST_IN_PARENTHESES = late_pattern(r"\bin\s*\([^()]*\Z")
_RETURN_BEFORE = late_pattern(r"\b(return|with)\s*\{\s*\Z")
_AMOUNT_BEFORE = late_pattern(r"\blimit\s+\S+\s*\Z")
_WORD_BEFORE = late_pattern(r"([a-z_]+)\s*\Z", re.IGNORECASE)
_BLOCKS = ("optional", "exists", "count", "not")
_SHOWN_BEFORE = 100


def foreign_word_hint(word: str) -> str | None:
    """Return what to write instead of a word that this language does not know."""
    return _WORDS.get(word.lower())


def foreign_hint(text: str, start: int, found: str, accepted: AbstractSet[str]) -> str | None:
    """Return what to write instead of ``found``, which stands at ``start`` and is not among ``accepted``."""
    before = text[max(0, start - _SHOWN_BEFORE) : start]
    if found.isidentifier():
        return _word_hint(found, before, accepted)
    if found in _COMPARISONS and before[-1:] + found not in _DOUBLE_MARKS and "AND" in accepted:
        return "comparisons cannot be chained: write 'a < b and b < c'"
    if found == ":" and _EDGE_IN_BRACKETS.search(before):
        return _TRAVERSAL
    if found == ":" and _NODE_IN_PARENTHESES.search(before):
        return "write a node as '$p: Person'"
    block = _WORD_BEFORE.search(before) if found == "{" else None
    if block is not None and (near := nearest_name(block[1], _BLOCKS, cutoff=0.7)) is not None and near != block[1]:
        return f"did you mean '{near}'?"
    if found == "," and _LIST_IN_PARENTHESES.search(before):
        return "write a list as '[1, 2]'"
    if found == "*" and {"VBAR", "VARIABLE"} <= accepted:
        return "write the bounds of a walk as '{1,3}'"
    return _DOUBLE_MARKS.get(before[-1:] + found) or _MARKS.get(found)


def _word_hint(word: str, before: str, accepted: AbstractSet[str]) -> str | None:
    lowered = word.lower()
    if {"TYPE_NAME", "LSQB"} <= accepted and foreign_type(word) is not None:
        return f"did you mean '{foreign_type(word)}'?"
    opening = _RETURN_BEFORE.search(before)
    if lowered == "distinct" and opening is not None:
        return f"write '{opening[1]} distinct {{ … }}'"
    if lowered in {"offset", "order"} and _AMOUNT_BEFORE.search(before):
        return f"write '{lowered}' before 'limit'"
    return _WORDS.get(lowered)
