"""Errors about the operator config: the file itself, and what it is asked for."""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Diagnostic, MissingThing
from omnigraph.errors.kinds import Kind
from omnigraph.errors.language import DiagnosticError


class ConfigError(DiagnosticError):
    """The operator config does not parse, or one of its keys holds what it cannot hold."""

    row = Row(code="config.invalid", kind=Kind.INVALID, details=Diagnostic)


class ProfileMissingError(OmnigraphError, KeyError):
    """The operator config has no profile of that name."""

    row = Row(code="profile.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class AliasMissingError(OmnigraphError, KeyError):
    """The operator config has no alias of that name."""

    row = Row(code="alias.not_found", kind=Kind.NOT_FOUND, details=MissingThing)


class ScopeUnsupportedError(OmnigraphError):
    """A graph is addressed through a server or a cluster, and this version works on storage only."""

    row = Row(code="scope.unsupported", kind=Kind.UNSUPPORTED, details=BadValue)
