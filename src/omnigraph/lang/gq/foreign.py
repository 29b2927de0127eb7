"""Words and marks of other query languages, and what to write here instead."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from omnigraph.lang.foreign_types import foreign_type
from omnigraph.lang.parsing import nearest_name
from omnigraph.values.patterns import late_pattern

_TRANSLATIONS = "the page 'Coming from Cypher, SQL or GQL' of the documentation translates common queries"
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
    "on": "write 'if absent' after the braces, or 'upsert' instead of 'insert'",
    "like": "write 'contains', 'starts_with', 'ends_with' or 'matches'",
    "merge": "write 'upsert'",
    "regexp": "write 'matches'",
    "rlike": "write 'matches'",
    "select": "write 'match { … } return { … }'",
    "skip": "write 'offset'",
    "unwind": "write 'each $item in …'",
    "where": "in a match, write the condition without 'where': '$p.age > 30'",
}

# Statements and clauses with which a text of another language begins.
_CYPHER_BEGINS = frozenset(
    {"call", "create", "detach", "foreach", "match", "merge", "optional", "return", "unwind", "with"}
)
_SQL_BEGINS = frozenset({"alter", "create", "delete", "drop", "explain", "insert", "select", "update", "with"})
_OWN_BEGINS = frozenset({"match", "insert", "upsert", "update", "delete"})
# Two marks that mean one thing elsewhere, by the second of them.
_DOUBLE_MARKS = {"==": "write '='", "<>": "write '!='", "||": "write 'or'", "&&": "write 'and'", "->": _TRAVERSAL}
_MARKS = {"&": "write 'and'", "|": "write 'or'", "!": "write 'not'", ";": "remove it: nothing separates statements"}
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_EDGE_IN_BRACKETS = late_pattern(r"-\s*\[\s*[A-Za-z0-9_]*\s*\Z")
_NODE_IN_PARENTHESES = late_pattern(r"\(\s*[A-Za-z0-9_]*\s*\Z")
_LIST_IN_PARENTHESES = late_pattern(r"\bin\s*\([^()]*\Z")
_RETURN_BEFORE = late_pattern(r"\b(return|with)\s*\{\s*\Z")
_BRACES_MISSING = late_pattern(r"\b(return|with|order|set)(?: +distinct)?\s+\Z")
_NAME_BEFORE = late_pattern(r"(?<![$\w.])([a-z_]\w*)\s*\Z")
_TYPE_AFTER = late_pattern(r":\s*([A-Z]\w*)")
_STATEMENT = late_pattern(r"(\w+)\s+(\S)")
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
    if "QUERY" in accepted and not text[:start].strip() and (hint := _beginning_hint(text, start)) is not None:
        return hint
    unbraced = _BRACES_MISSING.search(before) if "LBRACE" in accepted else None
    if unbraced is not None and (found[:1] == "$" or (found.isidentifier() and found.lower() != "distinct")):
        return f"write braces: '{unbraced[1]} {{ {'name: …' if unbraced[1] == 'set' else '…'} }}'"
    if found.isidentifier():
        return _word_hint(found, before, accepted)
    hint = _colon_hint(text, start, before) if found == ":" else _mark_hint(found, before, accepted)
    return hint or _DOUBLE_MARKS.get(before[-1:] + found) or _MARKS.get(found)


def _colon_hint(text: str, start: int, before: str) -> str | None:
    if _EDGE_IN_BRACKETS.search(before):
        return _TRAVERSAL
    if _NODE_IN_PARENTHESES.search(before):
        return "write a node as '$p: Person'"
    name, node = _NAME_BEFORE.search(before), _TYPE_AFTER.match(text, start)
    if name is not None and node is not None:
        return f"a variable begins with $: write '${name[1]}: {node[1]}'"
    return None


def _mark_hint(found: str, before: str, accepted: AbstractSet[str]) -> str | None:
    if found in _COMPARISONS and before[-1:] + found not in _DOUBLE_MARKS and "AND" in accepted:
        return "comparisons cannot be chained: write 'a < b and b < c'"
    block = _WORD_BEFORE.search(before) if found == "{" else None
    if block is not None and (near := nearest_name(block[1], _BLOCKS, cutoff=0.7)) is not None and near != block[1]:
        return f"did you mean '{near}'?"
    if found == "," and _LIST_IN_PARENTHESES.search(before):
        return "write a list as '[1, 2]'"
    if found == "," and "OPTIONAL" in accepted:
        return "remove it: clauses are separated by spaces or line breaks"
    if found == "*" and {"VBAR", "VARIABLE"} <= accepted:
        return "write hop bounds as '{1,3}'"
    return None


def _word_hint(word: str, before: str, accepted: AbstractSet[str]) -> str | None:
    lowered = word.lower()
    if {"TYPE_NAME", "LSQB"} <= accepted and foreign_type(word) is not None:
        return f"did you mean '{foreign_type(word)}'?"
    opening = _RETURN_BEFORE.search(before)
    if lowered == "distinct" and opening is not None:
        return f"write '{opening[1]} distinct {{ … }}'"
    statement = _WORD_BEFORE.search(before) if lowered in {"from", "into"} else None
    if statement is not None and statement[1] in {"delete", "insert"}:
        return f"leave it out: write '{statement[1]} Person …'"
    if lowered in {"offset", "order"} and _AMOUNT_BEFORE.search(before):
        return f"write '{lowered}' before 'limit'"
    return _WORDS.get(lowered)


def _beginning_hint(text: str, start: int) -> str | None:
    """Return a hint for a text that is in another language, or lacks its declaration."""
    statement = _STATEMENT.match(text, start)
    if statement is None:
        return None
    word, follower = statement[1].lower(), statement[2]
    if word in _OWN_BEGINS and (follower == "{" or (follower.isupper() and statement[1].islower())):
        return f"put the text into a declaration: 'query name() {{ {word} … }}'"
    if word in _CYPHER_BEGINS and (follower == "(" or word not in _SQL_BEGINS):
        return f"this looks like Cypher; {_TRANSLATIONS}"
    return f"this looks like SQL; {_TRANSLATIONS}" if word in _SQL_BEGINS else None
