"""Rankings: the first order key when it is a search function."""

from __future__ import annotations

from omnigraph.ir.model.expressions import Column, Constant, ParameterRef
from omnigraph.records import record


@record
class NearestRanking:
    """L2 distance, ascending; a text query is embedded first, by ``model`` if the schema names one."""

    field: Column
    query: Constant | ParameterRef
    model: str | None = None

    @property
    def variable(self) -> str:
        """The variable whose entities are ranked."""
        return self.field.variable

    @property
    def needs_embedding(self) -> bool:
        """Whether the query is text that must become a vector before the search."""
        return self.query.type.is_text

    def __str__(self) -> str:
        return f"nearest({self.field}, {self.query})"


@record
class Bm25Ranking:
    """BM25 score, descending."""

    field: Column
    query: Constant | ParameterRef

    @property
    def variable(self) -> str:
        """The variable whose entities are ranked."""
        return self.field.variable

    def __str__(self) -> str:
        return f"bm25({self.field}, {self.query})"


@record
class RrfRanking:
    """Reciprocal rank fusion of two rankings of one variable; a NULL ``k`` means 60."""

    first: NearestRanking | Bm25Ranking
    second: NearestRanking | Bm25Ranking
    k: Constant | ParameterRef

    @property
    def variable(self) -> str:
        """The variable whose entities are ranked."""
        return self.first.variable

    def __str__(self) -> str:
        return f"rrf({self.first}, {self.second}, {self.k})"


Ranking = NearestRanking | Bm25Ranking | RrfRanking
