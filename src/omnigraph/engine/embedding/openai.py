"""The embeddings interface of OpenAI, which many other providers and local servers offer too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from omnigraph.engine.embedding.http import HttpCaller
from omnigraph.engine.embedding.provider import Role
from omnigraph.engine.embedding.settings import EmbeddingSettings, missing_key
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
            items = _DECODER.decode(answer).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._http.garbled(_PATH, "it is no list of embeddings") from error
        by_index = {at if item.index is None else item.index: item.embedding for at, item in enumerate(items)}
        if len(items) != count or set(by_index) != set(range(count)):
            raise self._http.garbled(_PATH, f"it has other embeddings than were asked for: expected={count}")
        return [by_index[at] for at in range(count)]


class _Item(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Item]


# Made on import: threads that are the first to use the library on a type together bring the process down.
_DECODER = msgspec.json.Decoder(_Answer)


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
