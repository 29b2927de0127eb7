"""The mock: vectors that follow from the text alone, for tests. It has to be asked for by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph.engine.embedding.provider import Role

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
