"""Which projections the tables of a graph are to have, and who builds them.

``BUILDERS`` is the one place that names them: optimizing, loads, the background thread and status all go by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from omnigraph.catalog import Catalog, indexed_texts
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.records import record
from omnigraph.store.projections.files import Projection
from omnigraph.store.projections.keys import BYTES_PER_ROW, build_keys
from omnigraph.store.projections.keys import is_usable as are_keys_usable
from omnigraph.store.projections.kinds import ADJACENCY_IN, ADJACENCY_OUT, KEYS, LEAST_EDGES, TEXT
from omnigraph.store.tables.table import Table
from omnigraph.store.tables.tail import KEYS_ROWS

# Called with the bytes that a step of the work is about to take; raises to stop it.
Check = Callable[[int], None]
# Tells from the facts of a stored projection whether it can be read.
Usable = Callable[[Mapping[str, Any]], bool]
# Makes projections from tables and, if it is about one, from a property; None stands for one that could not be kept.
Build = Callable[[Sequence[Table], str, Check], Iterable[Projection | None]]
# Sorting edges and analysing words take more than sorting the hashes of keys.
_ROW_BYTES = 128


@record
class ProjectionInput:
    """A table that a projection is made from, and what of it.

    Args:
        table_key: the table.
        columns: the columns that the projection is made from.
        holds_deleted: rows that are deleted cost nothing.
        most_uncovered: with more rows than this outside of it, the projection counts as stale and is built again.
    """

    table_key: str
    columns: tuple[str, ...]
    holds_deleted: bool = False
    most_uncovered: int | None = None


@record
class WantedProjection:
    """A projection that a table is to have, or several that are built at once.

    Args:
        builder: who builds it, by name.
        kinds: which structures that makes.
        inputs: what they are made from, their own table first.
        prop: the property that they are about; empty when it is none.
        least_rows: smaller tables get none, as nobody would look for them.
        row_bytes: what building takes in memory for each row of the inputs, more rather than less.
    """

    builder: str
    kinds: tuple[str, ...]
    inputs: tuple[ProjectionInput, ...]
    prop: str = ""
    least_rows: int = 0
    row_bytes: int = _ROW_BYTES

    @property
    def table_key(self) -> str:
        """The table that they are projections of."""
        return self.inputs[0].table_key

    def of(self, table: Table) -> str:
        """Return how stored projections call the property: by the number of its column, which a rename keeps."""
        return next((str(number) for number, name in table.fields if name == self.prop), "") if self.prop else ""


@record
class ProjectionBuilder:
    """Someone who builds projections: of which tables, and how.

    ``is_usable`` tells from the facts of a stored one whether this version of omnigraph reads it.
    """

    name: str
    wanted: Callable[[NodeType | EdgeType, Catalog], Iterator[WantedProjection]]
    build: Build
    is_usable: Usable


def _always(_: Mapping[str, Any]) -> bool:
    return True


def keys_builder(build: Build, is_usable: Usable = _always) -> ProjectionBuilder:
    """Return who builds the keys of every table: where the row of an id is, be it deleted or not."""

    def wanted(owner: NodeType | EdgeType, _: Catalog) -> Iterator[WantedProjection]:
        ids = ProjectionInput(table_key=owner.table_key, columns=("id",), holds_deleted=True, most_uncovered=KEYS_ROWS)
        yield WantedProjection(builder="keys", kinds=(KEYS,), inputs=(ids,), row_bytes=BYTES_PER_ROW)

    return ProjectionBuilder(name="keys", wanted=wanted, build=build, is_usable=is_usable)


def text_builder(build: Build, is_usable: Usable = _always) -> ProjectionBuilder:
    """Return who builds the words of every property of free text that ``@index`` names."""

    def wanted(owner: NodeType | EdgeType, _: Catalog) -> Iterator[WantedProjection]:
        for prop in indexed_texts(owner):
            inputs = (ProjectionInput(table_key=owner.table_key, columns=(prop.name,)),)
            yield WantedProjection(builder="text", kinds=(TEXT,), inputs=inputs, prop=prop.name)

    return ProjectionBuilder(name="text", wanted=wanted, build=build, is_usable=is_usable)


def adjacency_builder(build: Build, *, least_rows: int = 0) -> ProjectionBuilder:
    """Return who builds the neighbours along every edge type of so many edges, in both directions at once."""

    def wanted(owner: NodeType | EdgeType, catalog: Catalog) -> Iterator[WantedProjection]:
        if isinstance(owner, EdgeType):
            ends = (catalog.nodes[owner.from_type], catalog.nodes[owner.to_type])
            inputs = (
                ProjectionInput(table_key=owner.table_key, columns=("src", "dst")),
                *(ProjectionInput(table_key=node.table_key, columns=("id",)) for node in ends),
            )
            kinds = (ADJACENCY_OUT, ADJACENCY_IN)
            yield WantedProjection(builder="adjacency", kinds=kinds, inputs=inputs, least_rows=least_rows)

    return ProjectionBuilder(name="adjacency", wanted=wanted, build=build, is_usable=_always)


def _build_adjacency(tables: Sequence[Table], _: str, check: Check) -> Iterable[Projection | None]:
    from omnigraph.engine.query.topology.edge_base import build_adjacency  # noqa: PLC0415 - status builds nothing

    edges, sources, targets = tables
    return build_adjacency(edges, sources, targets, check)


def _build_keys(tables: Sequence[Table], _: str, check: Check) -> Iterable[Projection | None]:
    return (build_keys(tables[0], check),)


def _build_text(tables: Sequence[Table], prop: str, check: Check) -> Iterable[Projection | None]:
    from omnigraph.engine.query.search.stored import build_text  # noqa: PLC0415 - status builds nothing

    return (build_text(tables[0], prop, check),)


def _are_words_usable(facts: Mapping[str, Any]) -> bool:
    from omnigraph.engine.query.search.stored import is_usable  # noqa: PLC0415 - only a graph with words needs it

    return is_usable(facts)


# Everything that maintenance builds.
BUILDERS: list[ProjectionBuilder] = [
    keys_builder(_build_keys, are_keys_usable),
    text_builder(_build_text, _are_words_usable),
    adjacency_builder(_build_adjacency, least_rows=LEAST_EDGES),
]


def wanted_projections(catalog: Catalog, table_key: str) -> tuple[WantedProjection, ...]:
    """Return the projections that a table is to have; none for a table that no type of the schema has."""
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    found = [owner for owner in owners if owner.table_key == table_key]
    return tuple(wanted for owner in found for builder in BUILDERS for wanted in builder.wanted(owner, catalog))


def builder_of(wanted: WantedProjection) -> ProjectionBuilder:
    """Return who builds a projection."""
    return next(builder for builder in BUILDERS if builder.name == wanted.builder)
