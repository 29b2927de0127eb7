"""How a command loads the engine: without waiting for what it does not use."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what is imported inside as quickly as possible.

    pyarrow finds out whether pandas is installed by importing it, at the first value that it makes; that takes as long
    as pyarrow and Lance together. Inside, it finds none; :func:`show_pandas` tells it otherwise.
    """
    hiding = _HidesPandas()
    sys.meta_path.insert(0, hiding)
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(hiding)
        if was_collecting:
            # Modules stay to the end: going through all of them once more would cost what was saved.
            gc.freeze()
            gc.enable()


def show_pandas() -> None:
    """Let pyarrow find pandas, for libraries that hand its frames over."""
    import pyarrow as pa  # noqa: PLC0415 - for those who have loaded it already

    with suppress(ImportError):
        pa.nulls(0).to_pandas()


class _HidesPandas:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name == "pandas":
            msg = f"{name} is left alone while a command starts"
            raise ModuleNotFoundError(msg, name=name)
        return None
