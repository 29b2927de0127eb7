"""Errors of writing and exporting rows: schema violations, embedding, exports.

Text is embedded before anything is written, so an error of embedding leaves nothing behind.
"""

from __future__ import annotations

from typing import Literal

from omnigraph.errors.base import ErrorRow, Kind, OmnigraphError, Retry
from omnigraph.errors.details import BadValue, Details, FormatMismatch, LimitExceeded, MissingThing
from omnigraph.records import record

ConstraintRule = Literal[
    "type", "required", "enum", "range", "check", "unique", "key", "endpoint", "orphan", "cardinality", "id"
]


@record
class Violation(Details):
    """One row that violates one rule. ``source`` and ``line`` say where the row came from, if it came from a file."""

    rule: str
    type_name: str
    message: str
    property: str | None = None
    entity_id: str | None = None
    value: str | None = None
    source: str | None = None
    line: int | None = None


@record
class Violations(Details):
    """The first violations of a change, in a stable order, and the total count."""

    items: tuple[Violation, ...]
    total: int


class ConstraintViolationError(OmnigraphError):
    """The change violates the schema; nothing was written. The message is that of the first violation."""

    row = ErrorRow(code="constraint.violated", kind=Kind.INVALID, details=Violations)


class BadRowsError(OmnigraphError):
    """Input rows cannot be read or do not fit their type; nothing was written."""

    row = ErrorRow(code="load.bad_rows", kind=Kind.INVALID, details=Violations)


class ExternalBlobError(OmnigraphError):
    """A Blob was given as an external address that the graph's policy does not allow."""

    row = ErrorRow(
        code="blob.external",
        kind=Kind.INVALID,
        details=BadValue,
        hint="pass the content itself, as base64:… text",
    )


class MemoryBudgetError(OmnigraphError):
    """The write needs more memory than allowed; nothing was written."""

    row = ErrorRow(
        code="engine.memory_budget",
        kind=Kind.TOO_LARGE,
        details=LimitExceeded,
        hint="allow more memory, or write in smaller parts",
    )


@record
class ModelMismatch(Details):
    """The model that a vector property declares, and the model that would embed the text."""

    property: str
    declared: str
    active: str


@record
class ProviderFault(Details):
    """How a provider failed: its address, the reason, the HTTP status if there was one; never contains a key."""

    provider: str
    address: str
    reason: str
    status: int | None = None
    attempts: int = 1


class EmbeddingSettingsError(OmnigraphError):
    """Text must be embedded, but the settings name no usable provider."""

    row = ErrorRow(code="embedding.settings", kind=Kind.INVALID, details=BadValue)


class EmbeddingLibraryError(OmnigraphError, ImportError):
    """The provider needs a library that is not installed or cannot be loaded."""

    row = ErrorRow(code="embedding.library", kind=Kind.UNSUPPORTED, details=MissingThing)


class EmbeddingModelMismatchError(OmnigraphError):
    """The schema declares another model for this vector; vectors of different models cannot be compared."""

    row = ErrorRow(
        code="embedding.model_mismatch",
        kind=Kind.INVALID,
        details=ModelMismatch,
        hint="set OMNIGRAPH_EMBED_MODEL to the model that the schema names",
    )


class EmbeddingUnavailableError(OmnigraphError):
    """The provider was unreachable or temporarily unavailable on every attempt."""

    row = ErrorRow(code="embedding.unavailable", kind=Kind.DEPENDENCY, details=ProviderFault, retry=Retry.AS_IS)


class EmbeddingDeadlineError(OmnigraphError, TimeoutError):
    """The provider did not answer within the time allowed for all attempts."""

    row = ErrorRow(
        code="embedding.deadline",
        kind=Kind.DEPENDENCY,
        details=ProviderFault,
        hint="allow more time with OMNIGRAPH_EMBED_DEADLINE_MS",
        retry=Retry.AS_IS,
    )


class EmbeddingRefusedError(OmnigraphError):
    """The provider rejected the request; a retry will not help."""

    row = ErrorRow(code="embedding.refused", kind=Kind.DEPENDENCY, details=ProviderFault)


class EmbeddingAnswerError(OmnigraphError):
    """The provider's answer cannot be read, or holds no usable vectors of the right dimension."""

    row = ErrorRow(code="embedding.answer", kind=Kind.DEPENDENCY, details=ProviderFault)


class ExportTargetError(OmnigraphError):
    """The target folder of an export is not empty, or lies inside the graph."""

    row = ErrorRow(
        code="export.target",
        kind=Kind.CONFLICT,
        details=BadValue,
        hint="choose a new or empty folder outside the graph",
    )


class ExportTypeError(OmnigraphError):
    """The export names a type that the schema does not have."""

    row = ErrorRow(code="export.type", kind=Kind.INVALID, details=MissingThing)


class ExportManifestError(OmnigraphError):
    """The folder holds an unfinished export, or one whose manifest this version cannot read."""

    row = ErrorRow(
        code="export.manifest",
        kind=Kind.INVALID,
        details=FormatMismatch,
        hint="export it again with this version",
    )


class ExportDamagedError(OmnigraphError):
    """A file of the export is missing or differs from what was written."""

    row = ErrorRow(
        code="export.damaged",
        kind=Kind.INTEGRITY,
        details=BadValue,
        hint="export it again, or copy the file again from its source",
    )
