"""Changes of entities as lines for people: one per entity, with what became of its properties."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from omnigraph.history.diff.change import EntityChange
from omnigraph.history.diff.images import Image

_MARKS = {"insert": "+", "update": "~", "delete": "-"}
_WIDTH = 60


def change_lines(changes: Iterable[EntityChange], *, indent: str = "") -> Iterator[str]:
    """Yield a line per entity: added, changed (old and new values) or removed."""
    for change in changes:
        arrow = _ends(change.after or change.before)
        told = f"{indent}{_MARKS[change.op]} {change.type.name} {change.id}{arrow}"
        yield told + "".join(f"  {text}" for text in _values(change))


def _ends(image: Image | None) -> str:
    if image is None or image.endpoints is None:
        return ""
    ends = image.to_json()["endpoints"]
    return f" ({ends['from']} → {ends['to']})"


def _values(change: EntityChange) -> Iterator[str]:
    before = _fields(change.before)
    after = _fields(change.after)
    if change.op == "update":
        for name in change.changed:
            yield f"{name}: {_short(before.get(name))} → {_short(after.get(name))}"
    elif change.op == "insert":
        for name, value in after.items():
            if value is not None and name not in {"from", "to"}:
                yield f"{name}: {_short(value)}"


def _fields(image: Image | None) -> dict[str, Any]:
    if image is None:
        return {}
    plain = image.to_json()
    return {**plain["properties"], **plain.get("endpoints", {})}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
