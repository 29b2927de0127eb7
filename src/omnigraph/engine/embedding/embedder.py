"""``Embedder``: what a graph asks for vectors. It finds its provider when the first text comes, and keeps it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np
import numpy.typing as npt

from omnigraph.engine.embedding.provider import EmbeddingProvider, Role
from omnigraph.engine.embedding.settings import (
    EmbeddingSettings,
    missing_provider,
    names_provider,
    settings_from_environment,
)
from omnigraph.errors import (
    BadValue,
    EmbeddingAnswerError,
    EmbeddingModelMismatchError,
    GraphClosedError,
    ModelMismatch,
    ProviderFault,
    ValueFormatError,
)
from omnigraph.runtime import Clock

Vectors = npt.NDArray[np.float32]

_EPSILON = np.finfo(np.float32).eps


def unit_vectors(found: Sequence[Sequence[float]], *, count: int, dimension: int, provider: str) -> Vectors:
    """Return ``count`` vectors of length one, a row each.

    Raises:
        EmbeddingAnswerError: there are more or fewer, or one has another dimension, a component that is not finite, or
            no direction.
    """
    if len(found) != count:
        raise _unusable(provider, f"expected {count} vectors, got {len(found)}")
    for vector in found:
        if len(vector) != dimension:
            raise _unusable(provider, f"expected vectors of {dimension} dimensions, got {len(vector)}")
    try:
        with np.errstate(over="ignore"):
            values = np.asarray(found, dtype=np.float64).reshape(count, dimension).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise _unusable(provider, "a vector has a component that is not a number") from error
    if not np.isfinite(values).all():
        raise _unusable(provider, "a vector has a component that is not finite")
    # Summed in double: squares of many small components would vanish otherwise.
    norms = np.sqrt(np.square(values.astype(np.float64)).sum(axis=1))
    if not (norms > _EPSILON).all():
        raise _unusable(provider, "a vector is all zero")
    units: Vectors = values / norms.astype(np.float32)[:, np.newaxis]
    return units


def _unusable(provider: str, reason: str) -> EmbeddingAnswerError:
    details = ProviderFault(provider=provider, address="", reason=reason)
    return EmbeddingAnswerError(f"unusable response from embedding provider '{provider}': {reason}", details=details)


# Texts whose vectors are plain Python numbers at a time.
_SLICE = 1024


class Embedder:
    """Embeds texts for one open graph. Threads may share it.

    Args:
        clock: measures deadlines and waits between attempts.
        embedding: settings or a provider, either of which wins over the environment. A provider stays its owner's to
            close.
        environment: where settings are looked for otherwise; that of the process unless given.
    """

    def __init__(
        self,
        clock: Clock,
        embedding: EmbeddingSettings | EmbeddingProvider | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._clock = clock
        self._given = embedding
        self._environment = os.environ if environment is None else environment
        self._lock = threading.Lock()
        self._provider: EmbeddingProvider | None = None
        self._is_closed = False

    @property
    def is_configured(self) -> bool:
        """Whether anybody named a provider; if it can be used shows when the first text is embedded."""
        return self._given is not None or names_provider(self._environment)

    def embed_query(
        self, text: str, *, dimension: int, model: str | None, field: str, limit_ms: int | None = None
    ) -> Vectors:
        """Return the vector of a text that rows are searched by.

        Args:
            text: what to embed.
            dimension: the size of the vector.
            model: the model that the schema names for the property; None compares nothing.
            field: the property, as errors name it.
            limit_ms: how long the caller can wait; no longer than settings allow in any case.

        Raises:
            EmbeddingSettingsError, EmbeddingLibraryError: there is no provider that could be asked.
            EmbeddingModelMismatchError: the provider's model is not the one of the schema.
            EmbeddingUnavailableError, EmbeddingDeadlineError: the provider did not answer.
            EmbeddingRefusedError, EmbeddingAnswerError: its answer is of no use.
            ValueFormatError: the text is no valid Unicode.
        """
        provider = self._for(model, field)
        vector: Vectors = self._vectors(provider, [text], dimension, "query", limit_ms)[0]
        return vector

    def embed_documents(self, texts: Sequence[str], *, dimension: int, model: str | None, field: str) -> Vectors:
        """Return the vectors of texts that rows hold, one row each; equal texts are embedded once.

        Takes and raises what :meth:`embed_query` does.
        """
        provider = self._for(model, field)
        places: dict[str, int] = {}
        for text in texts:
            places.setdefault(text, len(places))
        distinct = list(places)
        parts = [
            self._vectors(provider, distinct[start : start + _SLICE], dimension, "document", None)
            for start in range(0, len(distinct), _SLICE)
        ]
        if not parts:
            return np.zeros((0, dimension), dtype=np.float32)
        vectors: Vectors = np.concatenate(parts)[[places[text] for text in texts]]
        return vectors

    def portable(self) -> EmbeddingSettings | EmbeddingProvider:
        """Return what makes an embedder like this one in another process.

        Raises:
            EmbeddingSettingsError: no provider is configured.
        """
        if self._given is not None:
            return self._given
        if not self.is_configured:
            raise missing_provider()
        return settings_from_environment(self._environment)

    def close(self) -> None:
        """Close the provider, if it was made here; harmless when closed already."""
        with self._lock:
            self._is_closed = True
            provider, self._provider = self._provider, None
        if provider is not None and provider is not self._given:
            provider.close()

    def _for(self, model: str | None, field: str) -> EmbeddingProvider:
        provider = self._get()
        if model is not None and model != provider.model:
            details = ModelMismatch(property=field, declared=model, active=provider.model)
            raise EmbeddingModelMismatchError(
                f"vectors of two models cannot be compared: property '{field}' declares {model!r},"
                f" but {provider.model!r} is active",
                details=details,
            )
        return provider

    def _vectors(
        self, provider: EmbeddingProvider, texts: Sequence[str], dimension: int, role: Role, limit_ms: int | None
    ) -> Vectors:
        for text in texts:
            _check_unicode(text)
        found = provider.embed(texts, dimension=dimension, role=role, limit_ms=limit_ms)
        return unit_vectors(found, count=len(texts), dimension=dimension, provider=provider.name)

    def _get(self) -> EmbeddingProvider:
        with self._lock:
            if self._is_closed:
                details = BadValue(what="graph", value="closed", expected="open")
                raise GraphClosedError("the graph is closed", details=details)
            if self._provider is None:
                self._provider = self._build()
            return self._provider

    def _build(self) -> EmbeddingProvider:
        if self._given is not None and not isinstance(self._given, EmbeddingSettings):
            return self._given
        if not self.is_configured:
            raise missing_provider()
        return build_provider(self._given or settings_from_environment(self._environment), self._clock)


def build_provider(settings: EmbeddingSettings, clock: Clock) -> EmbeddingProvider:
    """Return the provider that settings describe.

    Raises:
        EmbeddingSettingsError: its key is missing.
        EmbeddingLibraryError: a library that it needs is not installed.
    """
    # Few graphs embed anything, and providers bring what talks to them.
    from omnigraph.engine.embedding.providers import (  # noqa: PLC0415 - see above
        GeminiProvider,
        LocalProvider,
        MockProvider,
        OpenAiProvider,
    )

    match settings.provider:
        case "openai-compatible" | "openai":
            return OpenAiProvider(settings, clock)
        case "gemini":
            return GeminiProvider(settings, clock)
        case "local":
            return LocalProvider(settings.active_model)
        case "mock":
            return MockProvider(settings.active_model)
        case _:
            assert_never(settings.provider)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        details = BadValue(what="text", value=ascii(text[:80]), expected="valid Unicode")
        raise ValueFormatError("the text to embed is not valid Unicode", details=details) from error
