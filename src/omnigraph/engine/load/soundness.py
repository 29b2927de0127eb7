"""Whether Arrow data is what its types say.

A reader of Parquet, and whoever hands over batches, may give columns whose bytes contradict their types: texts that are
not UTF-8, offsets that run backwards, indices beyond their dictionary. Once stored, such a column makes every other row
of its type unreadable, so nothing goes on before it has been looked at in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.rows import RowProblem
from omnigraph.engine.rows.problem import show
from omnigraph.records import record

_BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


@record
class SoundRows:
    """The rows that are as their types say, with their lines, and a problem for each of the others."""

    batch: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    problems: tuple[RowProblem, ...] = ()


def sound_rows(
    owner: NodeType | EdgeType, targets: Mapping[str, str], batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]
) -> SoundRows:
    """Return the sound rows of a batch; ``targets`` has the property of each of its columns.

    A column that is broken as a whole leaves no row, and its problem has the line of the first one.
    """
    if _flaw(batch) is None:
        return SoundRows(batch=batch, numbers=numbers)
    problems: dict[int, RowProblem] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        flaw = _flaw(column)
        if flaw is None:
            continue
        broken = _broken_texts(column)
        if not broken:
            text = f"column '{name}' is damaged: {flaw}"
            problem = RowProblem(
                line=int(numbers[0]), rule="arrow", message=text, type_name=owner.name, property=targets.get(name)
            )
            return SoundRows(batch=batch.slice(0, 0), numbers=numbers[:0], problems=(problem,))
        for at, value in broken.items():
            problem = RowProblem(
                line=int(numbers[at]),
                rule="arrow",
                message=f"invalid UTF-8 in column '{name}'",
                type_name=owner.name,
                property=targets.get(name),
                value=show(value),
            )
            problems.setdefault(at, problem)
    # Without a copy of the buffers of the broken rows, which would be looked at again.
    keep = np.setdiff1d(np.arange(batch.num_rows), list(problems))
    return SoundRows(
        batch=batch.take(pa.array(keep)),
        numbers=numbers[keep],
        problems=tuple(problems[at] for at in sorted(problems)),
    )


def _flaw(data: pa.RecordBatch | pa.Array) -> str | None:
    try:
        data.validate(full=True)
    except pa.ArrowException as error:
        return (str(error).splitlines() or ["unknown reason"])[0]
    return None


def _broken_texts(column: pa.Array) -> dict[int, Any]:
    """Return the rows whose texts are not UTF-8, each with what it holds; none when something else is wrong."""
    try:
        plain = _as_bytes(column)
    except (pa.ArrowException, ValueError):
        return {}
    if plain is None or _flaw(plain) is not None:
        return {}
    return {at: value for at, value in enumerate(plain.to_pylist()) if _is_broken(value)}


def _as_bytes(column: pa.Array) -> pa.Array | None:
    if pa.types.is_dictionary(column.type):
        values = _as_bytes(column.dictionary)
        return None if values is None else pa.DictionaryArray.from_arrays(column.indices, values)
    wanted = _bytes_type(column.type)
    return None if wanted is None else column.view(wanted)


def _bytes_type(given: pa.DataType) -> pa.DataType | None:
    if pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given):
        item = _bytes_type(given.value_type)
        if item is None:
            return None
        if pa.types.is_fixed_size_list(given):
            return pa.list_(item, given.list_size)
        return pa.large_list(item) if pa.types.is_large_list(given) else pa.list_(item)
    return _BINARY.get(given)


def _is_broken(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_broken, value))
    if not isinstance(value, bytes):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False
