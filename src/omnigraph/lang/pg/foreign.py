"""Words of other schema languages, and what to write here instead."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from omnigraph.lang.foreign_types import foreign_type

_REQUIRED = "leave it out: a property without '?' always has a value"
_DECLARATION = "write 'node Name { … }' or 'edge Name: From -> To'"

_WORDS = {
    **dict.fromkeys(("create", "table", "type", "class", "entity", "vertex", "relationship"), _DECLARATION),
    **dict.fromkeys(("not", "required"), _REQUIRED),
    **dict.fromkeys(("null", "nullable", "optional"), "write '?' behind the type"),
    **dict.fromkeys(("primary", "key", "pk"), "write '@key' behind the type"),
    "unique": "write '@unique' behind the type",
    "index": "write '@index' behind the type",
    "references": "declare an edge: 'edge Name: From -> To'",
    "extends": "write 'implements'",
}


def foreign_hint(text: str, start: int, found: str, accepted: AbstractSet[str]) -> str | None:
    """Return what to write instead of ``found``, which is not among ``accepted``."""
    del text, start
    if "BASE_TYPE" in accepted:
        meant = foreign_type(found)
        return None if meant is None else f"did you mean '{meant}'?"
    return _WORDS.get(found.lower())
