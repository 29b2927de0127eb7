"""A chunk of lines into rows per type: columnar where that is certain, line by line where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.rows.batch import TypeRows, join, rows_of
from omnigraph.engine.rows.columnar import ColumnarReader
from omnigraph.engine.rows.decoder import DecodedRow, RowDecoder
from omnigraph.engine.rows.lines import Head, Lines, is_blank, split
from omnigraph.engine.rows.problem import MAX_PROBLEMS, RowProblem
from omnigraph.records import record


@record
class DecodedChunk:
    """Rows by table key, and the lines that are no rows, in the order of the file."""

    types: Mapping[str, TypeRows]
    problems: tuple[RowProblem, ...]


class ChunkDecoder:
    """Decodes chunks of whole lines against a catalog. Threads may share it.

    Args:
        catalog: the accepted schema.
        is_patch: rows may leave out required properties, and it matters which ones they give.
    """

    def __init__(self, catalog: Catalog, *, is_patch: bool = False) -> None:
        self._decoder = RowDecoder(catalog, is_patch=is_patch)
        self._catalog = catalog
        self._is_patch = is_patch
        self._readers: dict[str, ColumnarReader] = {}

    def decode(self, data: bytes, first_line: int) -> DecodedChunk:
        """Return what the lines of ``data`` hold; its last byte is a line break.

        After the first :data:`MAX_PROBLEMS` problems the rest is not looked at.
        """
        if is_blank(data):
            return DecodedChunk(types={}, problems=())
        lines = split(data)
        parts: dict[str, list[TypeRows]] = {}
        exact = [lines.odd]
        for head, at in lines.by_head:
            owner = self._owner(head)
            doubtful = at
            if owner is not None:
                doubtful = self._read(owner, lines, at, first_line, parts)
            exact.append(doubtful)
        return self._finish(lines, np.sort(np.concatenate(exact)), first_line, parts)

    def decode_exactly(self, data: bytes, first_line: int) -> DecodedChunk:
        """Return the same as :meth:`decode`, line by line; slower, and what it is measured against."""
        lines = split(data)
        every = np.sort(np.concatenate([lines.odd, *(at for _, at in lines.by_head)]))
        return self._finish(lines, every, first_line, {})

    def _owner(self, head: Head) -> NodeType | EdgeType | None:
        return self._catalog.edge(head.name) if head.is_edge else self._catalog.node(head.name)

    def _read(
        self,
        owner: NodeType | EdgeType,
        lines: Lines,
        at: npt.NDArray[np.int64],
        first_line: int,
        parts: dict[str, list[TypeRows]],
    ) -> npt.NDArray[np.int64]:
        reader = self._readers.setdefault(owner.table_key, ColumnarReader(owner, is_patch=self._is_patch))
        is_run = at[-1] - at[0] == len(at) - 1
        mine = lines.whole.slice(int(at[0]), len(at)) if is_run else lines.whole.take(at)
        fast = reader.read(mine, at + first_line)
        if fast is None:
            return at
        parts.setdefault(owner.table_key, []).append(fast.rows)
        return at[fast.doubtful]

    def _finish(
        self, lines: Lines, exact: npt.NDArray[np.int64], first_line: int, parts: dict[str, list[TypeRows]]
    ) -> DecodedChunk:
        problems: list[RowProblem] = []
        rows: dict[str, list[DecodedRow]] = {}
        for decoded in self._decode_lines(lines, exact, first_line):
            if isinstance(decoded, RowProblem):
                problems.append(decoded)
                if len(problems) >= MAX_PROBLEMS:
                    break
            else:
                rows.setdefault(decoded.owner.table_key, []).append(decoded)
        for table_key, some in rows.items():
            parts.setdefault(table_key, []).append(rows_of(some[0].owner, some, is_patch=self._is_patch))
        types = {key: join(parts[key]) for key in sorted(parts)}
        return DecodedChunk(types=types, problems=tuple(problems))

    def _decode_lines(
        self, lines: Lines, exact: npt.NDArray[np.int64], first_line: int
    ) -> Iterable[DecodedRow | RowProblem]:
        for at in exact.tolist():
            yield self._decoder.decode(lines.whole[at].as_py(), first_line + at)
