"""The check that every vector passes before it is used, whoever made it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingAnswerError, ProviderFault

Vectors = npt.NDArray[np.float32]

_EPSILON = np.finfo(np.float32).eps


def unit_vectors(found: Sequence[Sequence[float]], *, count: int, dimension: int, provider: str) -> Vectors:
    """Return ``count`` vectors of length one, a row each.

    Raises:
        EmbeddingAnswerError: there are more or fewer, or one has another dimension, a component that is not finite, or
            no direction.
    """
    if len(found) != count:
        raise _unusable(provider, f"the number of vectors is wrong: expected={count} actual={len(found)}")
    for vector in found:
        if len(vector) != dimension:
            raise _unusable(provider, f"a vector has another dimension: expected={dimension} actual={len(vector)}")
    try:
        with np.errstate(over="ignore"):
            values = np.asarray(found, dtype=np.float64).reshape(count, dimension).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise _unusable(provider, "a vector has components that are no numbers") from error
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
    return EmbeddingAnswerError(
        f"the embedding provider's answer is unusable: {reason} provider={provider}", details=details
    )
