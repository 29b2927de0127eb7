"""A report that is two forms of one thing, for commands whose results have nothing else to say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from omnigraph.records import record


@record
class PlainReport:
    """A document, the lines that show it to people, and remarks for standard error."""

    document: dict[str, Any]
    lines: Sequence[str]
    remarks: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return self.document

    def to_lines(self) -> Iterable[str]:
        """The lines."""
        return self.lines

    def to_remarks(self) -> Iterable[str]:
        """The remarks."""
        return self.remarks
