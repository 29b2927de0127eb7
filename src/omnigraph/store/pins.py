"""Pins: which version of which dataset, on which of its branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.records import record


@record
class TablePin:
    """One immutable state of a dataset: its place below the root, its Lance branch (``None`` is main), its version.

    A version number means something only together with its branch: a branch continues its parent's numbers.
    """

    location: str
    branch: str | None
    version: int

    def to_json(self) -> dict[str, Any]:
        """Return the pin as JSON values."""
        return {"location": self.location, "branch": self.branch, "version": self.version}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TablePin:
        """Rebuild what :meth:`to_json` gave.

        >>> TablePin.from_json({"location": "nodes/1", "branch": None, "version": 3}).version
        3
        """
        return cls(location=data["location"], branch=data["branch"], version=data["version"])
