"""Vectors of a graph computed anew: which are wanted, their texts embedded, and the one commit that stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import NodeType, PropertyDef
from omnigraph.engine.comparison import one_array
from omnigraph.engine.constraints import check_change
from omnigraph.engine.embedding.embedder import Vectors
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.view import GraphView
from omnigraph.errors import AffectedLimitError, BadValue, LimitExceeded, MissingThing, TypeMissingError, UsageError
from omnigraph.records import record
from omnigraph.runtime import counting, current_call
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.transaction import CommitView, WriteTxn
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

# Texts that are embedded before the caller hears of it; on executors, those of a job.
_BATCH = 4096


@record
class EmbedProgress:
    """How far a run is: texts that are embedded, of all that it will embed."""

    embedded: int
    total: int


@record
class EmbeddedProperty:
    """What became of the vectors of one property.

    Args:
        type_name: the node type.
        property: the vector.
        stale: how many vectors do not fit their text, or are missing though there is one, before the run.
        embedded: how many were computed.
        cleared: how many were removed because their text is gone.
    """

    type_name: str
    property: str
    stale: int
    embedded: int = 0
    cleared: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "type": self.type_name,
            "property": self.property,
            "stale": self.stale,
            "embedded": self.embedded,
            "cleared": self.cleared,
        }


@record
class EmbedResult(Printable):
    """What a run did. ``commit`` is None when nothing was written: nothing was stale, or it was a dry run."""

    branch: str
    properties: tuple[EmbeddedProperty, ...]
    commit: Commit | None = None
    is_dry_run: bool = False
    warnings: tuple[str, ...] = ()

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> Self:
        """Return what a repeated request is told: commit and counts of the first."""
        listed = receipt.get("embedded", ())
        found = tuple(
            EmbeddedProperty(
                type_name=item["type"],
                property=item["property"],
                stale=item["stale"],
                embedded=item["embedded"],
                cleared=item["cleared"],
            )
            for item in listed
        )
        return cls(branch=commit.branch, properties=found, commit=commit)

    @property
    def stale(self) -> int:
        """How many vectors were stale before the run."""
        return sum(item.stale for item in self.properties)

    @property
    def embedded(self) -> int:
        """How many vectors were computed."""
        return sum(item.embedded for item in self.properties)

    @property
    def cleared(self) -> int:
        """How many vectors were removed because their text is gone."""
        return sum(item.cleared for item in self.properties)

    @property
    def remaining(self) -> int:
        """How many stale vectors are left."""
        return self.stale - self.embedded - self.cleared

    def lines(self) -> Iterator[str]:
        """Yield the counts, then those of each property that had a stale vector."""
        if self.is_dry_run:
            yield f"{counted(self.stale, 'stale vector')} on branch {self.branch}; nothing was written"
        elif self.commit is None:
            yield f"no stale vector on branch {self.branch}; nothing was committed"
        else:
            yield f"embedded {counted(self.embedded, 'vector')} on branch {self.branch}, {self.remaining} left"
        for item in self.properties:
            if item.stale:
                done = "" if self.is_dry_run else f", {item.embedded} embedded, {item.cleared} cleared"
                yield f"  {item.type_name}.{item.property}: {item.stale} stale{done}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "branch": self.branch,
            "dry_run": self.is_dry_run,
            "stale": self.stale,
            "embedded": self.embedded,
            "cleared": self.cleared,
            "remaining": self.remaining,
            "properties": [item.to_json() for item in self.properties],
            "commit": None if self.commit is None else self.commit.to_brief_json(),
            "warnings": list(self.warnings),
        }


@record
class Target:
    """A vector that is made of a text: the property, and where it belongs."""

    node: NodeType
    prop: PropertyDef

    @property
    def source(self) -> str:
        """The property that holds the text."""
        return "" if self.prop.embed is None else self.prop.embed.source

    @property
    def field(self) -> str:
        """What errors call it."""
        return f"{self.node.name}.{self.prop.name}"


def find_targets(catalog: Catalog, types: Sequence[str] | None) -> tuple[Target, ...]:
    """Return the ``@embed`` vectors of some node types, or of all.

    Raises:
        TypeMissingError: the schema has no such node type.
        UsageError: a type that is named has no such vector.
    """
    if types is None:
        return tuple(target for node in catalog.nodes.values() for target in _of(node))
    found: list[Target] = []
    for name in dict.fromkeys(item.removeprefix("node:") for item in types):
        node = catalog.nodes.get(name)
        if node is None:
            missing = MissingThing(what="type", name=name, near=tuple(sorted(catalog.nodes)))
            raise TypeMissingError(f"node type '{name}' was not found", details=missing)
        mine = _of(node)
        if not mine:
            details = BadValue(what="type", value=name, expected="a node type with an @embed vector")
            raise UsageError(f"node type '{name}' has no vector with @embed", details=details)
        found += mine
    return tuple(found)


def _of(node: NodeType) -> tuple[Target, ...]:
    return tuple(Target(node=node, prop=prop) for prop in node.properties if prop.embed is not None)


@record
class StaleRows:
    """Rows whose vector is to be computed, with their texts, and rows whose vector has lost its text."""

    target: Target
    ids: pa.Array
    texts: pa.Array
    cleared: pa.Array

    @property
    def count(self) -> int:
        """How many there are of both kinds."""
        return len(self.ids) + len(self.cleared)

    def first(self, count: int) -> StaleRows:
        """Return the first so many of them."""
        left = max(0, count - len(self.ids))
        return StaleRows(
            target=self.target,
            ids=self.ids.slice(0, count),
            texts=self.texts.slice(0, count),
            cleared=self.cleared.slice(0, left),
        )


def first_rows(rows: Sequence[StaleRows], limit: int | None) -> tuple[StaleRows, ...]:
    """Return the first ``limit`` rows of all of them; all when it is None."""
    if limit is None:
        return tuple(rows)
    chosen: list[StaleRows] = []
    for item in rows:
        chosen.append(item.first(limit))
        limit -= chosen[-1].count
    return tuple(chosen)


class SupportsEmbedding(Protocol):
    """Embeds texts: the embedder of a graph, or executors in its place."""

    def embed_documents(self, texts: Sequence[str], *, dimension: int, model: str | None, field: str) -> Vectors:
        """Return the vectors of texts, one row each."""


# The vector of each text, by property.
TextVectors = Mapping[str, Mapping[str, Any]]


def embed_rows(
    rows: Sequence[StaleRows],
    embedder: SupportsEmbedding,
    progress: Callable[[EmbedProgress], None] | None,
    batch: int = _BATCH,
) -> TextVectors:
    """Embed the texts of rows, equal ones of a property once.

    Raises:
        OmnigraphError: whatever :meth:`Embedder.embed_documents` raises.
    """
    texts = {item.target.field: pc.unique(item.texts).to_pylist() for item in rows}
    total, done = sum(map(len, texts.values())), 0
    found: dict[str, dict[str, Any]] = {}
    for item in rows:
        prop, mine = item.target.prop, texts[item.target.field]
        made = found.setdefault(item.target.field, {})
        for start in range(0, len(mine), batch):
            some = mine[start : start + batch]
            vectors = embedder.embed_documents(
                some,
                dimension=prop.type.dimension or 0,
                model=None if prop.embed is None else prop.embed.model,
                field=item.target.field,
            )
            made.update(zip(some, vectors, strict=True))
            done += len(some)
            if progress is not None:
                progress(EmbedProgress(embedded=done, total=total))
    return found


@record(frozen=False, slots=False)
class VectorWrite:
    """Adds vectors to a transaction, again on a newer state when another writer came first.

    A row whose text is another one by then is left as it is: it stays stale, and the next run finds it.
    """

    catalog: Catalog
    rows: Sequence[StaleRows]
    vectors: TextVectors
    counts: dict[str, tuple[int, int]]

    def decide(self, txn: WriteTxn) -> None:
        """Put the rows that change into a transaction."""
        staging = MutationStaging(txn, self.catalog)
        self.counts.clear()
        with counting(txn.counters), txn.snapshot.reading():
            for item in self.rows:
                embedded = self._put(staging, item.target, item.ids, is_cleared=False)
                cleared = self._put(staging, item.target, item.cleared, is_cleared=True)
                self.counts[item.target.field] = (embedded, cleared)
            self._check_affected(sum(map(sum, self.counts.values())))
            change = staging.net_change()

        def check(view: CommitView) -> None:
            check_change(change, GraphView.of_commit(view, self.catalog))

        if not change.is_empty:
            txn.add_check(check)

    def _put(self, staging: MutationStaging, target: Target, ids: pa.Array, *, is_cleared: bool) -> int:
        if not len(ids):
            return 0
        schema = arrow_schema(target.node)
        rows = staging.rows_with_ids(target.node, ids, schema.names)
        texts = one_array(rows.column(target.source)).to_pylist()
        known = self.vectors.get(target.field, {})
        fits = [text is None if is_cleared else text in known for text in texts]
        rows = rows.filter(pa.array(fits, pa.bool_()))
        values = [None if is_cleared else known[text] for text, is_fit in zip(texts, fits, strict=True) if is_fit]
        at, field = rows.schema.get_field_index(target.prop.name), rows.schema.field(target.prop.name)
        rows = rows.set_column(at, field, _column(values, field.type))
        if rows.num_rows:
            staging.pending(target.node).put(rows.select(schema.names))
        return int(rows.num_rows)

    def _check_affected(self, count: int) -> None:
        most = current_call().max_affected
        if most is not None and count > most:
            details = LimitExceeded(resource="affected entities", limit=most, actual=count)
            raise AffectedLimitError(
                f"{counted(count, 'entity', 'entities')} would change, and at most {most} may", details=details
            )


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not values or values[0] is None:
        return pa.nulls(len(values), kind)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(values)), type=kind)
