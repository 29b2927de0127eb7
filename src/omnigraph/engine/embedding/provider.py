"""What an embedding provider can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from omnigraph.engine.embedding.settings import EmbeddingSettings
from omnigraph.values import unfit

# What a text is for; some models embed a question and the passages it should find differently.
Role = Literal["query", "document"]


class EmbeddingProvider(Protocol):
    """Turns texts into vectors. Threads may share it.

    The caller checks and normalises what it returns, so a provider may pass on what a service answered.
    """

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def model(self) -> str:
        """The model whose space the vectors are in, as ``@embed(…, model="…")`` spells it."""

    def embed(
        self, texts: Sequence[str], *, dimension: int, role: Role, limit_ms: int | None = None
    ) -> Sequence[Sequence[float]]:
        """Return one vector of ``dimension`` numbers per text, in order.

        Args:
            texts: what to embed.
            dimension: the size of the vectors.
            role: what the texts are for.
            limit_ms: how long the caller can wait, where that is less than the provider's own limits allow.
        """

    def close(self) -> None:
        """Let go of connections; harmless when closed already."""


def check_embedding(given: object) -> None:
    """Refuse what is neither settings nor a provider; None passes, as the environment tells then.

    Raises:
        UsageError: it is something else.
    """
    if given is None or isinstance(given, EmbeddingSettings):
        return
    # A class has what its objects have, and is none of them.
    is_provider = not isinstance(given, type) and callable(getattr(given, "embed", None))
    if not is_provider or not callable(getattr(given, "close", None)):
        raise unfit("embedding", given, "EmbeddingSettings or a provider with embed and close")
