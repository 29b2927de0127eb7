"""How a plan shows a list of annotations: as JSON, and as the schema language writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph.catalog.model import AnnotationValue
from omnigraph.lang.parsing import quote_string


def annotations_json(annotations: Iterable[AnnotationValue]) -> list[dict[str, Any]]:
    """Return the annotations as JSON values; ``keywords`` is left out where there are none."""
    return [
        {
            "name": annotation.name,
            "value": annotation.value,
            **({"keywords": dict(annotation.keywords)} if annotation.keywords else {}),
        }
        for annotation in annotations
    ]


def annotations_text(annotations: Iterable[AnnotationValue]) -> str:
    """Return the annotations as a schema would hold them, or ``none``.

    >>> annotations_text([AnnotationValue(name="deprecated"), AnnotationValue(name="owner", value="ann")])
    '@deprecated @owner("ann")'
    """
    return " ".join(_text(annotation) for annotation in annotations) or "none"


def _text(annotation: AnnotationValue) -> str:
    if annotation.value is None:
        return f"@{annotation.name}"
    keywords = [f"{name}={quote_string(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}({', '.join([quote_string(annotation.value), *keywords])})"
