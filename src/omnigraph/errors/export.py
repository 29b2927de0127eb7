"""Errors of exports: where they are written, what they hold, and whether it is still what was written."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, FormatMismatch, MissingThing
from omnigraph.errors.kinds import Kind


class ExportTargetError(OmnigraphError):
    """The folder that an export is to be written to holds something already."""

    row = Row(
        code="export.target",
        kind=Kind.CONFLICT,
        details=BadValue,
        hint="name a folder that does not exist yet, or empty this one",
    )


class ExportTypeError(OmnigraphError):
    """An export names a type that the schema does not have."""

    row = Row(code="export.type", kind=Kind.INVALID, details=MissingThing)


class ExportManifestError(OmnigraphError):
    """A folder holds an export that was not finished, or one whose manifest this version cannot read."""

    row = Row(
        code="export.manifest",
        kind=Kind.INVALID,
        details=FormatMismatch,
        hint="export it again with this version",
    )


class ExportDamagedError(OmnigraphError):
    """A file of an export is missing, or is not what was written."""

    row = Row(
        code="export.damaged",
        kind=Kind.INTEGRITY,
        details=BadValue,
        hint="export it again, or get the file from where it was copied",
    )
