"""Approximate search: an index of ``@index(ann)`` chooses candidates, and true distances decide among them.

Storage searches the partitions of the index that are nearest to the query, and row by row what the index does not
cover. What it returns may lack rows that are nearer; every row that is returned is one of the version that is read,
passes the filters, and has its true distance. Wherever an index gains nothing, the search is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.search.ranks import Codes, rank_order
from omnigraph.engine.query.search.vectors import Floats, distances
from omnigraph.records import record
from omnigraph.store.tables.pinned import ROW_ID, Search, TableIndex

# Candidates that are compared exactly for each row that is wanted: the index knows numbers by one byte each.
CANDIDATES_PER_ROW = 4
# So many rows of each that is wanted must be left of the candidates, or their filters are too narrow for an index.
_LEFT_PER_ROW = 2
# Matching rows that are compared one by one.
_FEW_ROWS = 2048
# Candidates that an index is asked for at the most; beyond that an exact search takes less.
_MOST_CANDIDATES = 8192
_INDEX_KIND = "IVF_SQ"
# Partitions that are searched unless a read says how many.
_PROBES = 32
# So many numbers are compared sooner than an index is asked: 130,000 vectors of 128.
_FEW_NUMBERS = 1 << 24


@record
class VectorSearch:
    """How a read searched vectors that the schema lets it search approximately.

    Args:
        ranking: the text of the search.
        table_key: the table that was searched.
        index: the name of the index; None when there is none.
        covered_rows: rows of the table that the index covers; the others are compared one by one.
        rows: rows of the table.
        probes: partitions of the index that are searched.
        partitions: all of its partitions; None where nobody has counted them.
        exact_because: why the search was exact after all; None when it was approximate.
        recall: the share of the exact answer that was found; None where nobody has compared the two.
    """

    ranking: str
    table_key: str
    index: str | None
    covered_rows: int
    rows: int
    probes: int
    partitions: int | None = None
    exact_because: str | None = None
    recall: float | None = None

    @property
    def is_approximate(self) -> bool:
        """Whether rows may be missing."""
        return self.exact_because is None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found: dict[str, Any] = {
            "search": self.ranking,
            "type_key": self.table_key,
            "is_approximate": self.is_approximate,
            "index": self.index,
            "covered_rows": self.covered_rows,
            "rows": self.rows,
        }
        if not self.is_approximate:
            return found | {"exact_because": self.exact_because}
        return found | {
            "index_kind": _INDEX_KIND,
            "probes": self.probes,
            "partitions": self.partitions,
            "candidates_per_row": CANDIDATES_PER_ROW,
            "recall": self.recall,
        }

    def __str__(self) -> str:
        if not self.is_approximate:
            return f"exact {self.ranking} in {self.table_key}: {self.exact_because}"
        of = "" if self.partitions is None else f" of {self.partitions}"
        parts = [
            f"approximate {self.ranking} in {self.table_key}: index {self.index} ({_INDEX_KIND})",
            f"covers {self.covered_rows} of {self.rows} rows",
            f"probes {self.probes}{of} partitions",
            f"{CANDIDATES_PER_ROW} candidates per row",
            "recall not measured" if self.recall is None else f"recall {self.recall:.3f}",
        ]
        return ", ".join(parts)


class ApproximateSearch:
    """The vectors of one property of one type, searched through its index where that gains something.

    Args:
        entities: the type, at the version that is read.
        prop: the property, which the schema gives an ``@index(ann)``.
        options: how the read wants to search.
    """

    def __init__(self, entities: Entities, prop: str, options: QueryOptions) -> None:
        self._entities = entities
        self._prop = prop
        self._options = options

    @property
    def is_wanted(self) -> bool:
        """Whether the schema lets the property be searched approximately."""
        found = self._entities.owner.get(self._prop)
        return found is not None and found.is_searched_approximately

    def describe(self, ranking: str, *, counts_partitions: bool) -> VectorSearch:
        """Return how the vectors are searched, as far as that is known before a row is matched."""
        index, table = self._index(), self._entities.table
        covered = frozenset[int]() if index is None else index.fragment_ids
        reason = self._reason(index)
        partitions = None
        if counts_partitions and index is not None and reason is None:
            partitions = table.partition_count(index.name)
        return VectorSearch(
            ranking=ranking,
            table_key=self._entities.owner.table_key,
            index=None if index is None else index.name,
            covered_rows=sum(item.row_count for item in table.fragments if item.metadata.id in covered),
            rows=table.row_count,
            probes=self._probes if partitions is None else min(self._probes, partitions),
            partitions=partitions,
            exact_because=reason,
        )

    def nearest(self, query: Sequence[float], limit: int, codes: Codes) -> tuple[Codes, Floats] | str:
        """Return the codes of near vectors, nearest first, ties by entity id, and their true distances.

        Args:
            query: the vector to be near to.
            limit: how many at most.
            codes: which rows take part, each once.

        Returns:
            What was found, or why the search must be exact.
        """
        reason = self._reason(self._index())
        if reason is not None:
            return reason
        if len(codes) <= _FEW_ROWS:
            return "few rows match"
        image = self._entities.image
        wanted = math.ceil(limit * CANDIDATES_PER_ROW * image.row_count / len(codes))
        if wanted > _MOST_CANDIDATES:
            return "the limit is large for the rows that match"
        if not np.isfinite(np.asarray(query, dtype=np.float32)).all():
            return "the query has numbers that are too large"
        near = self._candidates(query, wanted)
        found, at = np.unique(image.codes_of(near.column(ROW_ID).to_numpy().astype(np.uint64)), return_index=True)
        inside = found >= 0
        if len(codes) < image.row_count:
            matching = np.zeros(image.row_count, dtype=np.bool_)
            matching[codes] = True
            inside &= matching[found]
        found, at = found[inside], at[inside]
        if len(found) < min(limit * _LEFT_PER_ROW, len(codes)):
            return "the rows that match are far from the query"
        away = distances(near.column(self._prop), query, at)
        best = rank_order(away, found, image.id_ranks, limit=limit)
        return found[best], away[best]

    def fetches(self, codes: Codes) -> bool:
        """Whether an exact search of these rows had better fetch them than bring the whole column into memory."""
        return len(codes) <= _FEW_ROWS and not self._entities.has_in_memory((self._prop,))

    def few(self, query: Sequence[float], limit: int, codes: Codes) -> tuple[Codes, Floats]:
        """Return the same of few rows, exactly: their vectors are fetched, and no others."""
        image = self._entities.image
        taken = self._entities.values(image.row_ids[codes].view(np.int64), self._prop)
        away = distances(pa.chunked_array([taken]), query)
        best = rank_order(away, codes, image.id_ranks, limit=limit)
        return codes[best], away[best]

    def _candidates(self, query: Sequence[float], count: int) -> pa.Table:
        asked = {
            "column": self._prop,
            "q": np.asarray(query, dtype=np.float32),
            "k": count,
            "nprobes": self._probes,
            "metric": "l2",
        }
        return self._entities.table.read([ROW_ID, self._prop], search=Search(nearest=asked))

    def _reason(self, index: TableIndex | None) -> str | None:
        """Return why every search is exact, if it is."""
        if self._options.nearest == "exact":
            return "the query requests an exact search"
        if not self._entities.table.pushes_predicates:
            return "the state is read under the names of another schema"
        if self._options.probes is None and self._number_count <= _FEW_NUMBERS:
            return "the table has few vectors, which a scan compares as quickly"
        return "the index is not built yet; run optimize" if index is None else None

    @property
    def _probes(self) -> int:
        return _PROBES if self._options.probes is None else self._options.probes

    @property
    def _number_count(self) -> int:
        """How many numbers an exact search looks at."""
        found = self._entities.owner.get(self._prop)
        dimension = 0 if found is None else found.type.dimension or 0
        return self._entities.table.row_count * dimension

    def _index(self) -> TableIndex | None:
        """Return the index, if it covers some row of this version."""
        table = self._entities.table
        present = {item.metadata.id for item in table.fragments}
        for index in table.indexes():
            if index.columns == (self._prop,) and index.kind == _INDEX_KIND and present & index.fragment_ids:
                return index
        return None
