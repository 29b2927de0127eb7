"""The mock's vectors are part of the contract: other tests hold numbers that follow from them."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from omnigraph.engine.embedding import Embedder, EmbeddingSettings
from omnigraph.runtime import ManualClock

# From a C program of the same recipe.
KNOWN = {
    "hello": [-0.352814049, 0.574378431, 0.491500646, -0.551397145],
    "": [-0.432940006, -0.764261484, -0.326452374, 0.349136323],
    "Größe 🙂": [-0.554934263, -0.390009522, 0.555182099, 0.481366217],
}


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def by_hand(text, dimension):
    seed = 14695981039346656037
    for byte in text.encode("utf-8"):
        seed = ((seed ^ byte) * 1099511628211) % 2**64
    raw = []
    for _ in range(dimension):
        seed ^= (seed << 13) % 2**64
        seed ^= seed >> 7
        seed ^= (seed << 17) % 2**64
        raw.append(f32(f32(f32(seed / (2**64 - 1)) * 2) - 1))
    norm = f32(math.sqrt(math.fsum(value * value for value in raw)))
    return [f32(value / norm) for value in raw]


def mock():
    return Embedder(ManualClock(), EmbeddingSettings(provider="mock"))


@pytest.mark.parametrize("text", KNOWN)
def test_known_texts_have_known_vectors(text):
    vector = mock().embed_query(text, dimension=4, model=None, field="D.v")
    assert vector.dtype == np.float32
    assert vector.tolist() == [f32(value) for value in KNOWN[text]]


@pytest.mark.parametrize("dimension", [1, 2, 3, 384, 3072])
def test_vectors_follow_the_recipe_in_every_dimension(dimension):
    for text in ("a", "the quick brown fox", "\u0000", "日本語" * 50):
        assert mock().embed_query(text, dimension=dimension, model=None, field="D.v").tolist() == by_hand(
            text, dimension
        )


def test_query_and_document_have_the_same_vector():
    embedder = mock()
    rows = embedder.embed_documents(["a", "b"], dimension=8, model=None, field="D.v")
    assert rows[1].tolist() == embedder.embed_query("b", dimension=8, model=None, field="D.v").tolist()
