"""Vectors of nodes by which nodes with alike surroundings are near each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.algorithms.found import Found
from omnigraph.engine.algorithms.projection import Projection
from omnigraph.engine.algorithms.seeds import Hashes, mixed, node_hashes
from omnigraph.engine.query.limits import Limits

Vectors = npt.NDArray[np.float32]


def fast_rp(graph: Projection, params: Mapping[str, Any], limits: Limits) -> Found:
    """Embed nodes by fast random projection: average the random vectors of neighbours again and again (FastRP).

    The random vector of a node follows from the seed, its type and its id alone. So vectors of two states, or of two
    branches, can be compared.
    """
    count, dimension = graph.node_count, params["dimension"]
    walked = graph.towards(params["direction"])
    limits.check(4 * 4 * count * dimension + 24 * walked.edge_count)
    averages = walked.matrix(np.float32)
    total = np.asarray(averages.sum(axis=1)).ravel()
    share = np.divide(1.0, total, out=np.zeros(count, dtype=np.float32), where=total > 0)
    averages.data *= np.repeat(share, np.diff(averages.indptr))
    vectors = random_vectors(node_hashes(graph.nodes, params["seed"]), dimension)
    embedding = _unit(vectors) * np.float32(params["self_influence"])
    scale = np.power(np.where(total > 0, total, 1), params["normalization"]).astype(np.float32)
    vectors *= scale[:, np.newaxis]
    for weight in params["weights"]:
        limits.check()
        vectors = averages @ vectors
        embedding += np.float32(weight) * _unit(vectors)
    values = pa.FixedSizeListArray.from_arrays(pa.array(embedding.ravel(), pa.float32()), dimension)
    return Found(nodes=np.arange(count), columns={"embedding": values})


def random_vectors(hashes: Hashes, dimension: int) -> Vectors:
    """Return a very sparse random vector for each node: a third of its items are not zero."""
    vectors = np.zeros((len(hashes), dimension), dtype=np.float32)
    size = np.float32(np.sqrt(3.0 / dimension))
    for place in range(dimension):
        drawn = mixed(hashes, place) % np.uint64(6)
        vectors[drawn == 0, place] = size
        vectors[drawn == 1, place] = -size
    return vectors


def _unit(vectors: Vectors) -> Vectors:
    """Return vectors of length one; those of length zero stay as they are."""
    lengths = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1))
    made: Vectors = (vectors / np.where(lengths > 0, lengths, 1)[:, np.newaxis]).astype(np.float32)
    return made
