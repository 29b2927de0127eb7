"""Vectors that input rows leave to an embedding provider.

Rows are decoded against a schema whose required ``@embed`` vectors may be missing. Only when every row has been read
without a problem are the texts embedded, so that a load that fails on its input asks nobody for anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import Catalog, NodeType, PropertyDef
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.load.spool import Spool
from omnigraph.engine.rows import DecodedChunk, RowProblem, TypeRows
from omnigraph.engine.rows.decoder import required_problem
from omnigraph.records import record


@record
class MissingVectors:
    """What is left out of rows, and who makes it up.

    Args:
        catalog: the schema to decode with.
        accepted: the schema that whole rows follow.
        embedder: embeds texts.
    """

    catalog: Catalog
    accepted: Catalog
    embedder: Embedder

    @classmethod
    def find(cls, accepted: Catalog, embedder: Embedder | None) -> MissingVectors | None:
        """Return what may be left out; None when it is nothing, or when no provider is configured."""
        if embedder is None or not any(any(_embedded(node)) for node in accepted.nodes.values()):
            return None
        if not embedder.is_configured:
            return None
        nodes = {name: _opened(node) for name, node in accepted.nodes.items()}
        return cls(catalog=replace(accepted, nodes=nodes), accepted=accepted, embedder=embedder)

    def settle(self, chunk: DecodedChunk) -> DecodedChunk:
        """Return rows as those of the accepted schema; one without a vector and without its text is a problem."""
        return settle_vectors(self.accepted, chunk)

    def fill(self, spool: Spool) -> None:
        """Embed what spooled rows left out.

        Raises:
            OmnigraphError: whatever :meth:`Embedder.embed_documents` raises.
        """
        for key, owner in spool.owners.items():
            if not isinstance(owner, NodeType):
                continue
            rows = spool.table(key)
            for prop in _embedded(owner):
                if rows.column(prop.name).null_count:
                    rows = self._filled(owner, prop, rows)
            spool.replace(key, rows)

    def _filled(self, owner: NodeType, prop: PropertyDef, rows: pa.Table) -> pa.Table:
        if prop.embed is None:
            return rows
        column = rows.column(prop.name)
        is_missing = pc.is_null(column)
        vectors = self.embedder.embed_documents(
            rows.column(prop.embed.source).filter(is_missing).to_pylist(),
            dimension=prop.type.dimension or 0,
            model=prop.embed.model,
            field=f"{owner.name}.{prop.name}",
        )
        made = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=arrow_type(prop.type))
        places = np.arange(len(column))
        places[is_missing.to_numpy()] = len(column) + np.arange(len(made))
        whole = pa.concat_arrays([*column.chunks, made]).take(pa.array(places))
        at = rows.schema.get_field_index(prop.name)
        return rows.set_column(at, rows.schema.field(at), whole)


def settle_vectors(accepted: Catalog, chunk: DecodedChunk) -> DecodedChunk:
    """Return rows as those of the accepted schema; one without a vector and without its text is a problem."""
    types: dict[str, TypeRows] = {}
    problems = list(chunk.problems)
    for key, part in chunk.types.items():
        node = accepted.nodes.get(part.owner.name) if isinstance(part.owner, NodeType) else None
        types[key] = part if node is None else replace(part, owner=node)
        if node is not None:
            problems += _hopeless(node, part)
    return DecodedChunk(types=types, problems=tuple(sorted(problems, key=lambda problem: problem.line or 0)))


def vectors_missing(part: TypeRows) -> str | None:
    """Return the first property whose required vector some row leaves to be computed."""
    props = _embedded(part.owner) if isinstance(part.owner, NodeType) else ()
    return next((prop.name for prop in props if part.rows.column(prop.name).null_count), None)


def _embedded(node: NodeType) -> Iterator[PropertyDef]:
    return (prop for prop in node.properties if prop.embed is not None and not prop.type.nullable)


def _opened(node: NodeType) -> NodeType:
    missing = {prop.name for prop in _embedded(node)}
    properties = [
        replace(prop, type=replace(prop.type, nullable=True)) if prop.name in missing else prop
        for prop in node.properties
    ]
    return replace(node, properties=tuple(properties))


def _hopeless(node: NodeType, part: TypeRows) -> Iterator[RowProblem]:
    for prop in _embedded(node):
        if prop.embed is None or not part.rows.column(prop.name).null_count:
            continue
        lacks_both = pc.and_(pc.is_null(part.rows.column(prop.name)), pc.is_null(part.rows.column(prop.embed.source)))
        for line in part.lines.filter(lacks_both.combine_chunks()).to_pylist():
            problem = required_problem(node, prop, line, is_given=False)
            text = f"{problem.message}, and so is the text to compute it from, '{prop.embed.source}'"
            yield replace(problem, message=text)
