"""``omnigraph version``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph import __version__
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output
from omnigraph.records import record
from omnigraph.values.formats import STORAGE_FORMAT

version_app = new_app()


@record
class VersionReport:
    """The version of the package and of the storage format."""

    package: str
    internal_schema: int

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"omnigraph": self.package, "internal_schema": self.internal_schema}

    def to_lines(self) -> Iterable[str]:
        """One line per version."""
        return [f"omnigraph {self.package}", f"internal-schema {self.internal_schema}"]

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies a version."""
        return ()


@version_app.command()
def version(*, as_json: AsJson = False) -> int:
    """Show the versions of the package and of the storage format."""
    choose_output(as_json=as_json).show(VersionReport(package=__version__, internal_schema=STORAGE_FORMAT))
    return 0
