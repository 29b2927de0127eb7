"""Vectors that inserts leave to an embedding provider.

An insert may leave out a required ``@embed`` vector when it assigns the text that the vector is made of. All such texts
are known before the first statement runs, so they are embedded together, and the plan then assigns their vectors like
any other value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import Embed, PropertyType
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.mutate.rows import StatementRows, computed
from omnigraph.engine.mutate.values import RequestValues
from omnigraph.errors import Diagnostic, QueryMeaningError
from omnigraph.ir.model import Assign, Constant, InsertPlan, MutationPlan, ParameterRef, Scalarlike
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record


def embed_inserts(
    plan: MutationPlan, calls: ParameterRows, catalog: Catalog, embedder: Embedder, now_ms: int
) -> tuple[MutationPlan, ParameterRows]:
    """Return the mutation with the vectors that its inserts leave out; as it is when no provider is configured.

    Raises:
        QueryMeaningError: the text of such a vector is NULL.
        OmnigraphError: whatever :meth:`Embedder.embed_documents` raises.
    """
    gaps = list(_gaps(plan, catalog))
    if not gaps or not embedder.is_configured:
        return plan, calls
    statements, columns = list(plan.statements), dict(calls.columns)
    for gap, vectors in zip(gaps, _vectors(gaps, calls, embedder, now_ms), strict=True):
        statement = statements[gap.statement]
        if isinstance(statement, InsertPlan):
            value = ParameterRef(name=gap.parameter, type=gap.type)
            assign = Assign(property=gap.vector, value=value, type=gap.type)
            statements[gap.statement] = replace(statement, assigns=(*statement.assigns, assign))
        columns[gap.parameter] = vectors
    return replace(plan, statements=tuple(statements)), ParameterRows(columns=columns, count=calls.count)


@record
class _Gap:
    """A vector that one statement leaves out, and the expression of its text."""

    statement: int
    type_name: str
    vector: str
    type: PropertyType
    embed: Embed
    source: Scalarlike

    @property
    def parameter(self) -> str:
        # No declared parameter can have a space in its name.
        return f"vector {self.statement} {self.vector}"

    @property
    def field(self) -> str:
        return f"{self.type_name}.{self.vector}"

    def texts(self, calls: ParameterRows, now_ms: int) -> Sequence[Any]:
        """Return the text of each call."""
        if isinstance(self.source, Constant):
            return [self.source.value] * calls.count
        if isinstance(self.source, ParameterRef):
            return calls.columns[self.source.name]
        rows = [RequestValues(parameters=calls.row(at), now_ms=now_ms) for at in range(calls.count)]
        return [computed(self.source, StatementRows(given, 1))[0] for given in rows]


def _gaps(plan: MutationPlan, catalog: Catalog) -> Iterator[_Gap]:
    for number, statement in enumerate(plan.statements):
        if not isinstance(statement, InsertPlan) or statement.entity != "node":
            continue
        assigned = {assign.property: assign.value for assign in statement.assigns}
        for prop in catalog.nodes[statement.type_name].properties:
            if prop.embed is None or prop.type.nullable or prop.name in assigned:
                continue
            if prop.embed.source in assigned:
                yield _Gap(
                    statement=number,
                    type_name=statement.type_name,
                    vector=prop.name,
                    type=prop.type,
                    embed=prop.embed,
                    source=assigned[prop.embed.source],
                )


def _vectors(
    gaps: Sequence[_Gap], calls: ParameterRows, embedder: Embedder, now_ms: int
) -> Iterator[list[tuple[float, ...]]]:
    """Yield the vectors of each gap, one per call; texts for the same model and size are embedded in one go."""
    texts = [_checked(gap, gap.texts(calls, now_ms), calls.count) for gap in gaps]
    together: dict[tuple[int, str | None], list[int]] = {}
    for at, gap in enumerate(gaps):
        together.setdefault((gap.type.dimension or 0, gap.embed.model), []).append(at)
    found: dict[int, list[tuple[float, ...]]] = {}
    for (dimension, model), places in together.items():
        wanted = [text for at in places for text in texts[at]]
        rows = embedder.embed_documents(wanted, dimension=dimension, model=model, field=gaps[places[0]].field)
        vectors = [tuple(row) for row in rows.tolist()]
        for number, at in enumerate(places):
            found[at] = vectors[number * calls.count : (number + 1) * calls.count]
    for at in range(len(gaps)):
        yield found[at]


def _checked(gap: _Gap, texts: Sequence[Any], count: int) -> Sequence[str]:
    for number, text in enumerate(texts, 1):
        if text is None:
            where = "" if count == 1 else f"row {number}: "
            message = (
                f"{where}no value for the required vector '{gap.vector}' of '{gap.type_name}': it is computed from"
                f" '{gap.embed.source}', which is NULL"
            )
            raise QueryMeaningError(message, details=Diagnostic(suggestion="assign the vector or the text"))
    return texts
