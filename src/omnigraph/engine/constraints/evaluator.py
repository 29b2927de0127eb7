"""The order in which the rules of a schema are asked about a change."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from omnigraph.catalog.model import ENDPOINTS, EdgeType
from omnigraph.engine.change import GraphChange, TypeChange
from omnigraph.engine.constraints.cardinality import check_cardinality
from omnigraph.engine.constraints.endpoints import check_endpoints
from omnigraph.engine.constraints.evaluation import Evaluation
from omnigraph.engine.constraints.image import Image, image_of
from omnigraph.engine.constraints.kernel import Kernel, KernelSettings
from omnigraph.engine.constraints.row_rules import find_in_rows
from omnigraph.engine.constraints.uniqueness import check_uniqueness
from omnigraph.engine.view import GraphView
from omnigraph.engine.violations import Describer, ViolationList
from omnigraph.errors import ConstraintViolationError, Violations


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


def _in_order(change: GraphChange) -> list[TypeChange]:
    return sorted(change.types.values(), key=lambda part: (isinstance(part.type, EdgeType), part.type.name.encode()))


def _relate(change: GraphChange, view: GraphView, kernel: Kernel, found: ViolationList) -> Evaluation:
    parts = _in_order(change)

    def related(images: Iterable[Image]) -> Evaluation:
        by_table = {image.type.table_key: image for image in images}
        return Evaluation(change=change, view=view, kernel=kernel, images=by_table, found=found)

    if sum(part.rows.num_rows for part in parts if part.rows is not None) < kernel.settings.parallel_from_rows:
        return related(image_of(part, kernel) for part in parts)
    with ThreadPoolExecutor(kernel.settings.threads, thread_name_prefix="omnigraph-check") as pool:
        run = related(pool.map(lambda part: image_of(part, kernel), parts))
        edges = [owner for image in run.images.values() if isinstance(owner := image.type, EdgeType)]
        # The run remembers these, and finding them is most of the work that is left.
        list(pool.map(lambda end: run.unwritten_ends(*end), product(edges, ENDPOINTS)))
    return run


def _check_sets(run: Evaluation) -> None:
    for node in run.images.values():
        if not isinstance(node.type, EdgeType):
            check_uniqueness(run, node)
    # An edge type that the change does not write to can still lose the nodes it joins.
    for name in sorted(run.view.catalog.edges, key=str.encode):
        edge = run.view.catalog.edges[name]
        image = run.images.get(edge.table_key)
        if image is not None:
            check_uniqueness(run, image)
        check_endpoints(run, edge, image)
        if image is not None:
            check_cardinality(run, edge, image)
