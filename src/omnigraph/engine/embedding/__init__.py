"""Text into vectors: providers behind one interface, and the embedder that a graph holds."""

from omnigraph.engine.embedding.embedder import Embedder
from omnigraph.engine.embedding.provider import EmbeddingProvider, Role, check_embedding
from omnigraph.engine.embedding.settings import EmbeddingSettings, ProviderKind, Secret, settings_from_environment

__all__ = [
    "Embedder",
    "EmbeddingProvider",
    "EmbeddingSettings",
    "ProviderKind",
    "Role",
    "Secret",
    "check_embedding",
    "settings_from_environment",
]
