"""Errors that belong to no single room: usage, values, files, the operator config, and internal bugs."""

from __future__ import annotations

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError
from omnigraph.errors.details import BadValue, Diagnostic, MissingThing
from omnigraph.errors.language import DiagnosticError


class InternalError(OmnigraphError):
    """An internal contradiction; always a bug in omnigraph."""

    row = ErrorRow(code="internal", kind=Kind.INTERNAL, hint="report this with the steps that led to it")


class UsageError(OmnigraphError):
    """The arguments of a command or call are invalid or do not go together."""

    row = ErrorRow(code="usage", kind=Kind.INVALID, details=BadValue)


class ValueFormatError(OmnigraphError, ValueError):
    """A name, id or reference is malformed."""

    row = ErrorRow(code="value.format", kind=Kind.INVALID, details=BadValue)


class FileMissingError(OmnigraphError, FileNotFoundError):
    """A file named in a command or call does not exist."""

    row = ErrorRow(code="file.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class FileAccessError(OmnigraphError):
    """A file exists but cannot be read or written as requested."""

    row = ErrorRow(code="file.access", kind=Kind.INVALID, details=BadValue)


class FailpointError(OmnigraphError):
    """An injected fault; occurs only in tests that enable a failpoint."""

    row = ErrorRow(code="failpoint", kind=Kind.UNAVAILABLE, details=BadValue)


class ConfigError(DiagnosticError):
    """The operator config does not parse, or one of its keys has an invalid value."""

    row = ErrorRow(code="config.invalid", kind=Kind.INVALID, details=Diagnostic)


class ProfileMissingError(OmnigraphError, KeyError):
    """The operator config has no profile with that name."""

    row = ErrorRow(code="profile.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class ServerMissingError(OmnigraphError, KeyError):
    """The operator config has no server with that name."""

    row = ErrorRow(code="server.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class AliasMissingError(OmnigraphError, KeyError):
    """The operator config has no alias with that name."""

    row = ErrorRow(code="alias.not_found", kind=Kind.NOT_FOUND, details=MissingThing)
