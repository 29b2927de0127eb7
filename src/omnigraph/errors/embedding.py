"""Errors of embedding: settings that name no usable provider, and what a provider can do to us.

Text is embedded before anything is read or written for it, so none of these leaves anything behind.
"""

from __future__ import annotations

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import BadValue, Details, MissingThing
from omnigraph.errors.kinds import Kind, Retry
from omnigraph.records import record


@record
class ModelMismatch(Details):
    """The model that a vector property was declared with, and the one that would embed the text."""

    property: str
    declared: str
    active: str


@record
class ProviderFault(Details):
    """What a provider did: its address, why that is no answer, the HTTP status if there was one; never a key."""

    provider: str
    address: str
    reason: str
    status: int | None = None
    attempts: int = 1


class EmbeddingSettingsError(OmnigraphError):
    """Text must be embedded, and the settings name no provider that can be asked."""

    row = Row(code="embedding.settings", kind=Kind.INVALID, details=BadValue)


class EmbeddingLibraryError(OmnigraphError, ImportError):
    """The provider needs a library that is not installed, or that cannot be loaded here."""

    row = Row(code="embedding.library", kind=Kind.UNSUPPORTED, details=MissingThing)


class EmbeddingModelMismatchError(OmnigraphError):
    """The schema says that a vector comes from another model; vectors of two models cannot be compared."""

    row = Row(
        code="embedding.model_mismatch",
        kind=Kind.INVALID,
        details=ModelMismatch,
        hint="set OMNIGRAPH_EMBED_MODEL to the model that the schema names",
    )


class EmbeddingUnavailableError(OmnigraphError):
    """The provider could not be reached, or said that it cannot at the moment, in every attempt."""

    row = Row(code="embedding.unavailable", kind=Kind.DEPENDENCY, details=ProviderFault, retry=Retry.AS_IS)


class EmbeddingDeadlineError(OmnigraphError, TimeoutError):
    """The provider gave no answer within the time that all attempts together may take."""

    row = Row(
        code="embedding.deadline",
        kind=Kind.DEPENDENCY,
        details=ProviderFault,
        hint="allow more time with OMNIGRAPH_EMBED_DEADLINE_MS",
        retry=Retry.AS_IS,
    )


class EmbeddingRefusedError(OmnigraphError):
    """The provider answered that it will not do this; asking again would not change that."""

    row = Row(code="embedding.refused", kind=Kind.DEPENDENCY, details=ProviderFault)


class EmbeddingAnswerError(OmnigraphError):
    """The provider's answer cannot be read, or holds no usable vectors of the right dimension."""

    row = Row(code="embedding.answer", kind=Kind.DEPENDENCY, details=ProviderFault)
