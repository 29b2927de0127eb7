"""The order in which the rules of a schema are asked about a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ENDPOINTS, EdgeType, NodeType
from omnigraph.engine.constraints.evaluation import (
    SLICE_ROWS,
    ChangeImage,
    Evaluation,
    are_distinct,
    counts_are_within,
    display_tuple,
    ids_table,
    image_of,
    slices_of,
    tuples_of,
    without,
)
from omnigraph.engine.constraints.kernel import Kernel, KernelSettings
from omnigraph.engine.constraints.row_rules import find_in_rows
from omnigraph.engine.constraints.set_rules import (
    CARDINALITY,
    ENDPOINT_MISSING,
    ORPHANED_EDGE,
    UNIQUE_IN_CHANGE,
    UNIQUE_WITH_STORED,
)
from omnigraph.engine.constraints.violations import (
    Describer,
    ViolationList,
    describe_clash,
    describe_edge_count,
    describe_missing_end,
    describe_orphan,
)
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.errors import ConstraintViolationError, Violation, Violations
from omnigraph.runtime import in_context

# Stands for "no upper bound": no count reaches it.
UNBOUNDED = (1 << 63) - 1
_NO_EDGES = pa.schema([("id", pa.string()), ("src", pa.string())]).empty_table()


def check_cardinality(run: Evaluation, edge: EdgeType, image: ChangeImage) -> None:
    """Add the sources with too many or too few edges, among those whose edges the change touches."""
    rule = edge.cardinality
    if not rule.minimum and rule.maximum is None:
        return
    touched = _touched(run, edge, image)
    if not len(touched):
        return
    stored = _NO_EDGES
    if not image.replaces_all and run.view.row_count(edge.table_key):
        stored = run.view.rows_where(edge.table_key, "src", touched, ("id", "src"))
    gone = run.gone_nodes(f"node:{edge.from_type}")
    minimum, maximum = rule.minimum, UNBOUNDED if rule.maximum is None else rule.maximum

    def is_clean() -> bool:
        kept = without(stored, image.replaced).column("src")
        return counts_are_within(image.counts("src"), kept, touched, gone, (minimum, maximum))

    found = run.kernel.find(
        CARDINALITY,
        lambda: {
            "touched": ids_table(touched),
            "gone": ids_table(gone),
            "written": image.written("id", "src"),
            "stored": stored,
            "replaced": image.replaced,
        },
        unless=is_clean,
        minimum=minimum,
        maximum=maximum,
    )
    if found is not None:
        run.found.add(found.num_rows, _described_count(run, edge, image, found))


def _touched(run: Evaluation, edge: EdgeType, image: ChangeImage) -> pa.Array:
    written = image.counts("src").field("values")
    # Sources that only lose edges cannot pass a maximum. A replaced table counts as empty, so nobody loses any.
    if not edge.cardinality.minimum or image.replaces_all:
        return written
    left = run.view.rows_of(edge.table_key, image.replaced.column("id"), ("src",)).column("src")
    return pc.unique(pa.chunked_array([written, *left.chunks], pa.string()))


def _described_count(run: Evaluation, edge: EdgeType, image: ChangeImage, found: pa.Table) -> Iterator[Violation]:
    describer = run.describer(image)
    for batch in found.to_batches():
        for one in zip(*(batch.column(name) for name in ("source", "edges", "row")), strict=True):
            source, edges, row = (value.as_py() for value in one)
            yield describe_edge_count(edge, source, edges, None if row is None else describer.place(row))


def check_uniqueness(run: Evaluation, image: ChangeImage) -> None:
    """Add the violations of a type's key and of each ``@unique``, in that order."""
    rows = image.part.rows
    if rows is None or not rows.num_rows:
        return
    owner = image.type
    if owner.key is not None:
        # The id follows from the key, so equal ids are equal keys; stored rows of the same id are replaced by them.
        found = run.kernel.find(
            UNIQUE_IN_CHANGE,
            lambda: {"written": tuples_of(owner, rows, ("id",))},
            unless=lambda: not image.has_repeated_ids,
        )
        _add(run, image, tuple(sorted(owner.key)), found)
    for columns in owner.uniques:
        if owner.key is None or set(columns) != set(owner.key):
            _check_columns(run, image, rows, columns)


def _check_columns(run: Evaluation, image: ChangeImage, rows: pa.Table, columns: tuple[str, ...]) -> None:
    owner = image.type
    found = run.kernel.find(
        UNIQUE_IN_CHANGE,
        lambda: {"written": tuples_of(owner, rows, columns)},
        unless=lambda: are_distinct([rows.column(name) for name in columns]),
    )
    _add(run, image, columns, found)
    if image.replaces_all or not run.view.row_count(owner.table_key):
        return
    asked = narrowest(owner, columns)
    for some in image.slices():
        met = run.view.rows_where(owner.table_key, asked, some.rows.column(asked), ("id", *columns))
        if met.num_rows:
            _add(run, image, columns, _find_clashes(run, some, met, columns))


def _find_clashes(run: Evaluation, image: ChangeImage, met: pa.Table, columns: tuple[str, ...]) -> pa.Table | None:
    owner = image.type
    written = tuples_of(owner, image.rows, columns)
    # Rows are known by their number in the change, whichever of them the image keeps.
    written = written.set_column(0, "row", image.positions.take(written.column("row")))
    stored = tuples_of(owner, met, columns)

    def is_clean() -> bool:
        kept = without(stored, image.replaced)
        return not kept.num_rows or not pc.any(pc.is_in(kept["value"], value_set=written["value"])).as_py()

    return run.kernel.find(
        UNIQUE_WITH_STORED,
        lambda: {"written": written, "stored": stored, "replaced": image.replaced},
        unless=is_clean,
    )


def narrowest(owner: NodeType | EdgeType, columns: tuple[str, ...]) -> str:
    """Return the column to ask storage about: one that has an index, if any."""
    indexed = {column for listed in (owner.key or (), *owner.indexes) for column in listed}
    if isinstance(owner, EdgeType):
        indexed.update(ENDPOINTS)
    return next((column for column in columns if column in indexed), columns[0])


def _add(run: Evaluation, image: ChangeImage, columns: tuple[str, ...], found: pa.Table | None) -> None:
    if found is not None:
        run.found.add(found.num_rows, _described_clash(run, image, columns, found))


def _described_clash(
    run: Evaluation, image: ChangeImage, columns: tuple[str, ...], found: pa.Table
) -> Iterator[Violation]:
    owner, rows = image.type, image.part.rows
    describer = run.describer(image)
    for batch in found.to_batches():
        for clash in batch.to_pylist():
            at, first = clash["row"], clash.get("first_row")
            value = display_tuple(owner, rows, at, columns)
            first_place = None if first is None else describer.place(first)
            yield describe_clash(owner, columns, describer.place(at), value, other=clash["other"], first=first_place)


_NO_REPLACED = ids_table(pa.array([], pa.string()))


def check_endpoints(run: Evaluation, edge: EdgeType, image: ChangeImage | None) -> None:
    """Add the written edges that miss a node, then the stored ones that lose one."""
    if image is not None and image.rows.num_rows:
        for some in image.slices():
            _check_written(run, edge, some, is_whole=some is image)
    _check_kept(run, edge, image)


def _check_written(run: Evaluation, edge: EdgeType, image: ChangeImage, *, is_whole: bool) -> None:
    sources, targets = (
        run.unwritten_ends(edge, side) if is_whole else run.unwritten_among(edge, side, image.rows.column(side))
        for side in ENDPOINTS
    )
    if edge.is_same_type:
        both = pc.unique(pa.chunked_array([sources, targets]))
        from_nodes = to_nodes = run.nodes_after(f"node:{edge.from_type}", both)
    else:
        from_nodes = run.nodes_after(f"node:{edge.from_type}", sources)
        to_nodes = run.nodes_after(f"node:{edge.to_type}", targets)
    found = run.kernel.find(
        ENDPOINT_MISSING,
        lambda: {
            "written": image.written("src", "dst"),
            "sources": ids_table(*from_nodes.known),
            "targets": ids_table(*to_nodes.known),
        },
        unless=lambda: not len(from_nodes.missing) and not len(to_nodes.missing),
    )
    if found is not None:
        run.found.add(found.num_rows, _described_missing(run, edge, image, found))


def _described_missing(run: Evaluation, edge: EdgeType, image: ChangeImage, found: pa.Table) -> Iterator[Violation]:
    describer = run.describer(image)
    for batch in found.to_batches():
        for one in zip(*(batch.column(name) for name in ("row", "side", "missing")), strict=True):
            row, side, missing = (value.as_py() for value in one)
            yield describe_missing_end(edge, describer.place(row), side, missing)


def _check_kept(run: Evaluation, edge: EdgeType, image: ChangeImage | None) -> None:
    if run.is_replaced(edge.table_key):
        return
    parts = []
    replaced = _NO_REPLACED if image is None else image.replaced
    for side, node in (("src", edge.from_type), ("dst", edge.to_type)):
        for gone in slices_of(run.gone_nodes(f"node:{node}")):
            met = run.view.rows_where(edge.table_key, side, gone, ("id", side))
            named = pa.array([side] * met.num_rows, pa.string())
            found = met.rename_columns(["id", "node"]).add_column(1, "side", named)
            # Most edges of nodes that go have gone with them.
            parts.append(without(found, replaced))
    kept = pa.concat_tables(parts) if parts else None
    if kept is None or not kept.num_rows:
        return
    found = run.kernel.find(
        ORPHANED_EDGE,
        lambda: {"kept": kept, "replaced": replaced},
        unless=lambda: not without(kept, replaced).num_rows,
    )
    if found is not None:
        run.found.add(found.num_rows, _described_orphans(edge, found))


def _described_orphans(edge: EdgeType, found: pa.Table) -> Iterator[Violation]:
    for batch in found.to_batches():
        for one in zip(*(batch.column(name) for name in ("id", "side", "node")), strict=True):
            yield describe_orphan(edge, *(value.as_py() for value in one))


def check_change(
    change: GraphChange, view: GraphView, *, limit: int = 100, settings: KernelSettings | None = None
) -> None:
    """Return if the graph keeps every rule of its schema after ``change``.

    Raises:
        ConstraintViolationError: it would not; the message is that of the first violation.
        MemoryBudgetError: the change is too large to be checked within the settings.
    """
    found = find_violations(change, view, limit, settings=settings)
    if found.total:
        raise ConstraintViolationError(found.items[0].message, details=found)


def find_violations(
    change: GraphChange, view: GraphView, limit: int = 100, *, settings: KernelSettings | None = None
) -> Violations:
    """Return what ``change`` would break on ``view``: the first ``limit`` violations, and how many there are.

    Row rules come first, per type; then keys and uniqueness of nodes; then uniqueness, endpoints and cardinality per
    edge type. Nodes come before edges, types in the order of their names. Rows may hold an id twice: each of them is
    judged by itself and for uniqueness, and the last one counts for everything else.

    Args:
        change: what is to be written; its rows are in the layout of their tables.
        view: the state without the change.
        limit: how many violations to describe; at least one is.
        settings: what the relational kernel may use.
    """
    found = ViolationList(limit=max(limit, 1))
    parts = _in_order(change)
    can_relate = True
    for part in parts:
        describer = Describer(change=change, part=part)
        for finding in () if part.rows is None else find_in_rows(part.type, part.rows):
            can_relate = can_relate and not finding.is_misfit
            found.add(len(finding.rows), finding.described(part.type, describer.place))
    if can_relate:
        with Kernel(settings) as kernel:
            _check_sets(_relate(change, view, kernel, found))
    return found.finish()


def find_miscounted(edge: EdgeType, rows: pa.Table, view: GraphView, limit: int = 100) -> Violations:
    """Return the sources that have too many or too few edges when ``rows`` are all the edges of the type."""
    found = ViolationList(limit=max(limit, 1))
    part = TypeChange(type=edge, rows=rows, replaces_all=True)
    change = GraphChange(types={edge.table_key: part})
    with Kernel() as kernel:
        image = image_of(part, kernel)
        run = Evaluation(change=change, view=view, kernel=kernel, images={edge.table_key: image}, found=found)
        check_cardinality(run, edge, image)
    return found.finish()


def _in_order(change: GraphChange) -> list[TypeChange]:
    return sorted(change.types.values(), key=lambda part: (isinstance(part.type, EdgeType), part.type.name.encode()))


def _relate(change: GraphChange, view: GraphView, kernel: Kernel, found: ViolationList) -> Evaluation:
    parts = _in_order(change)

    def related(images: Iterable[ChangeImage]) -> Evaluation:
        by_table = {image.type.table_key: image for image in images}
        return Evaluation(change=change, view=view, kernel=kernel, images=by_table, found=found)

    if sum(part.rows.num_rows for part in parts if part.rows is not None) < kernel.settings.parallel_from_rows:
        return related(image_of(part, kernel) for part in parts)
    with ThreadPoolExecutor(kernel.settings.threads, thread_name_prefix="omnigraph-check") as pool:
        run = related(pool.map(in_context(partial(image_of, kernel=kernel)), parts))
        # Those of larger changes are found piece by piece.
        small = [image for image in run.images.values() if image.rows.num_rows <= SLICE_ROWS]
        edges = [owner for image in small if isinstance(owner := image.type, EdgeType)]

        def find(end: tuple[EdgeType, str]) -> None:
            run.unwritten_ends(*end)

        # The run remembers these, and finding them is most of the work that is left.
        list(pool.map(in_context(find), product(edges, ENDPOINTS)))
    return run


def _check_sets(run: Evaluation) -> None:
    for node in run.images.values():
        if not isinstance(node.type, EdgeType):
            check_uniqueness(run, node)
    # An edge type that the change does not write to can still lose the nodes it joins.
    loses_nodes = any(
        (image.replaces_all or len(image.deletes)) and not isinstance(image.type, EdgeType)
        for image in run.images.values()
    )
    edges = run.view.catalog.edges
    written = (image.type.name for image in run.images.values() if isinstance(image.type, EdgeType))
    for name in sorted(edges if loses_nodes else edges.keys() & set(written), key=str.encode):
        edge = edges[name]
        image = run.images.get(edge.table_key)
        if image is not None:
            check_uniqueness(run, image)
        check_endpoints(run, edge, image)
        if image is not None:
            check_cardinality(run, edge, image)
