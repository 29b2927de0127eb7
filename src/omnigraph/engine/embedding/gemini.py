"""The embeddings interface of Gemini."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from omnigraph.engine.embedding.http import HttpCaller
from omnigraph.engine.embedding.provider import Role
from omnigraph.engine.embedding.settings import EmbeddingSettings, missing_key
from omnigraph.runtime import Clock

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
            return _DECODER.decode(answer).embedding.values
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._http.garbled(self._path, "it is no embedding") from error


class _Embedding(msgspec.Struct):
    values: list[float]


class _Answer(msgspec.Struct):
    embedding: _Embedding


# Made on import: threads that are the first to use the library on a type together bring the process down.
_DECODER = msgspec.json.Decoder(_Answer)
