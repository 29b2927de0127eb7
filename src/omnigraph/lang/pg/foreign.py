"""Words of other schema languages, and what to write here instead."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from omnigraph.lang.foreign_types import foreign_type
from omnigraph.values.patterns import late_pattern

_REQUIRED = "leave it out: a property without '?' always has a value"
_DECLARATION = "write 'node Name { … }' or 'edge Name: From -> To'"

_YAML = late_pattern(r"\s*(?:---|(?!(?:node|edge|interface|config)\s+[A-Z])[A-Za-z_]+:(?:\s|\Z))")

_WORDS = {
    **dict.fromkeys(("create", "table", "type", "class", "entity", "vertex", "relationship"), _DECLARATION),
    **dict.fromkeys(("not", "required"), _REQUIRED),
    **dict.fromkeys(("null", "nullable", "optional"), "write '?' after the type"),
    **dict.fromkeys(("primary", "key", "pk"), "write '@key' after the type"),
    "unique": "write '@unique' after the type",
    "index": "write '@index' after the type",
    "references": "declare an edge: 'edge Name: From -> To'",
    "extends": "write 'implements'",
}


def foreign_hint(text: str, start: int, found: str, accepted: AbstractSet[str]) -> str | None:
    """Return what to write instead of ``found``, which is not among ``accepted``."""
    if _YAML.match(text):
        return f"this looks like YAML; {_DECLARATION}"
    del start
    if "BASE_TYPE" in accepted:
        meant = foreign_type(found)
        return None if meant is None else f"did you mean '{meant}'?"
    return _WORDS.get(found.lower())
