"""Errors that belong to no single room: usage, values, files, and our own bugs."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, MissingThing
from omnigraph.errors.kinds import Kind


class InternalError(OmnigraphError):
    """A contradiction inside omnigraph; always a bug of ours."""

    row = Row(code="internal", kind=Kind.INTERNAL, hint="report this with the steps that led to it")


class UsageError(OmnigraphError):
    """A command or a call was given arguments that do not go together."""

    row = Row(code="usage", kind=Kind.INVALID, details=BadValue)


class ValueFormatError(OmnigraphError, ValueError):
    """A name, an id or a reference is not written the way its type demands."""

    row = Row(code="value.format", kind=Kind.INVALID, details=BadValue)


class FileMissingError(OmnigraphError, FileNotFoundError):
    """A file that a command or a call names does not exist."""

    row = Row(code="file.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class FileAccessError(OmnigraphError):
    """A file exists but cannot be read or written as asked."""

    row = Row(code="file.access", kind=Kind.INVALID, details=BadValue)


class FailpointError(OmnigraphError):
    """An injected fault; only ever seen in tests that switch a failpoint on."""

    row = Row(code="failpoint", kind=Kind.UNAVAILABLE, details=BadValue)
