"""``omnigraph version``."""

from __future__ import annotations

from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.distribution import VERSION
from omnigraph.values.formats import QUERY_LANGUAGE, SCHEMA_LANGUAGE, STORAGE_FORMAT, WIRE_VERSION

version_app = new_app()


@version_app.command()
def version(*, as_json: AsJson = False) -> int:
    """Show the versions of the package, the storage format, the wire format and the languages."""
    formats = {
        "internal_schema": STORAGE_FORMAT,
        "wire": WIRE_VERSION,
        "schema_language": SCHEMA_LANGUAGE,
        "query_language": QUERY_LANGUAGE,
    }
    told = [f"{name.replace('_', '-')} {number}" for name, number in formats.items()]
    choose_output(as_json=as_json).show(
        PlainReport(document={"omnigraph": VERSION, **formats}, lines=[f"omnigraph {VERSION}", *told])
    )
    return 0
