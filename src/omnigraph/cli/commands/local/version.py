"""``omnigraph version``."""

from __future__ import annotations

from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.distribution import VERSION
from omnigraph.values.formats import STORAGE_FORMAT

version_app = new_app()


@version_app.command()
def version(*, as_json: AsJson = False) -> int:
    """Show the versions of the package and of the storage format."""
    choose_output(as_json=as_json).show(
        PlainReport(
            document={"omnigraph": VERSION, "internal_schema": STORAGE_FORMAT},
            lines=[f"omnigraph {VERSION}", f"internal-schema {STORAGE_FORMAT}"],
        )
    )
    return 0
