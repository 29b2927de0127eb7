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

    def place(self) -> str:
        """Where the row is: its line of a file, its index among rows of memory, or its type and id.

        >>> Violation(rule="type", type_name="Person", message="", source="people.csv", line=17).place()
        'people.csv:17'
        >>> Violation(rule="type", type_name="Person", message="", source="Person[]", line=17).place()
        'Person[17]'
        """
        if self.source is not None:
            return place_of(self.source, self.line)
        return self.type_name if self.entity_id is None else f"{self.type_name} '{self.entity_id}'"

    def describe(self) -> str:
        """Return the place, the message, and the value unless the message has it.

        >>> Violation(rule="type", type_name="P", message="no number", value="x", source="a.csv", line=2).describe()
        'a.csv:2: no number: x'
        """
        value, message = self.value, self.message
        # Texts have double quotes in a value, and mostly single ones in a message.
        is_in_message = value is None or value in message or value.replace('"', "'") in message
        return f"{self.place()}: {message}" + ("" if is_in_message else f": {value}")


IN_MEMORY = "[]"
"""How the names of sources end whose rows were given by a program and have an index instead of a line."""


def place_of(source: str, line: int | None) -> str:
    """Return what messages call a line of a source; without one, the source itself."""
    if source.endswith(IN_MEMORY):
        name = source.removesuffix(IN_MEMORY)
        return name if line is None else f"{name}[{line}]"
    return source if line is None else f"{source}:{line}"


@record
class ViolationGroup(Details):
    """Violations of one rule in one column: how many, the first one as a sample, and where the first few are."""

    sample: Violation
    count: int
    places: tuple[str, ...]

    def describe(self) -> str:
        """Return the group for people.

        >>> sample = Violation(rule="type", type_name="P", message="no number", value="x", source="a.csv", line=2)
        >>> ViolationGroup(sample=sample, count=7, places=("a.csv:2", "a.csv:5")).describe()
        'a.csv:2: no number: x (7 rows: a.csv:2, a.csv:5, …)'
        """
        described = self.sample.describe()
        if self.count == 1:
            return described
        more = ", …" if self.count > len(self.places) else ""
        return f"{described} ({self.count} rows: {', '.join(self.places)}{more})"


@record
class Violations(Details):
    """The first violations of a change, in a stable order, and the total count.

    ``groups`` has every violation of a load's input that could not be read, those beyond ``items`` too.
    """

    items: tuple[Violation, ...]
    total: int
    groups: tuple[ViolationGroup, ...] = ()

    def lines(self) -> list[str]:
        """Return the violations for people: those of a rule and a column together, if that is known of them."""
        if self.groups:
            rest = self.total - sum(group.count for group in self.groups)
            lines = [group.describe() for group in self.groups]
        else:
            rest = self.total - len(self.items)
            lines = [f"{item.place()}: {item.message}" for item in self.items]
        return [*lines, f"and {rest} more"] if rest else lines


class ConstraintViolationError(OmnigraphError):
    """The change violates the schema; nothing was written. The message is that of the first violation."""

    row = ErrorRow(code="constraint.violated", kind=Kind.INVALID, details=Violations)


class BadRowsError(OmnigraphError):
    """Input rows cannot be read or do not fit their type; nothing was written."""

    row = ErrorRow(code="load.bad_rows", kind=Kind.INVALID, details=Violations)

    def __str__(self) -> str:
        return _with_lines(self)


class MappingError(OmnigraphError):
    """A mapping file is not valid, or does not fit the files of its folder; nothing was read."""

    row = ErrorRow(code="load.mapping", kind=Kind.INVALID, details=Violations)

    def __str__(self) -> str:
        return _with_lines(self)


def _with_lines(error: OmnigraphError) -> str:
    found = error.details
    if not isinstance(found, Violations) or found.total <= 1:
        return error.message
    return "\n".join([error.message, *(f"  {line}" for line in found.lines())])


@record
class BlobSource(Details):
    """An object outside of the graph, by its address without credentials, and what is the matter with it."""

    uri: str
    reason: str


class ExternalBlobSourceError(OmnigraphError):
    """A Blob was given as an allowed external address whose object cannot be read; nothing was written."""

    row = ErrorRow(
        code="blob.source",
        kind=Kind.DEPENDENCY,
        details=BlobSource,
        hint="check that the object exists and can be read, then repeat the write",
    )


class BlobReferenceError(OmnigraphError):
    """The content of the Blob is outside of the graph, which keeps its address only."""

    row = ErrorRow(
        code="blob.reference",
        kind=Kind.UNSUPPORTED,
        details=BlobSource,
        hint="read the object at its address, or load it with append or merge, which copy it",
    )


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
