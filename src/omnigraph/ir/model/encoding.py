"""Plans as JSON values: every node becomes an object with its kind, so that tools can walk one without the classes."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from omnigraph.catalog.model import PropertyType

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def to_json(node: Any) -> dict[str, Any]:
    """Return a plan's fields as plain JSON values, absent optional ones left out."""
    fields = dataclasses.fields(node)
    values = {item.name: getattr(node, item.name) for item in fields}
    return {name: _encode(value) for name, value in values.items() if value is not None}


def _encode(value: Any) -> Any:
    if isinstance(value, PropertyType):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {"kind": _INNER_CAPITAL.sub("_", type(value).__name__).lower(), **to_json(value)}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value
