"""``@key`` and ``@unique``: no two rows of a type hold the same tuple, in the change and in what it meets."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ENDPOINTS, EdgeType, NodeType
from omnigraph.engine.constraints.evaluation import Evaluation
from omnigraph.engine.constraints.image import Image, without
from omnigraph.engine.constraints.proofs import are_distinct
from omnigraph.engine.constraints.set_rules import UNIQUE_IN_CHANGE, UNIQUE_WITH_STORED
from omnigraph.engine.constraints.tuples import display_tuple, tuples_of
from omnigraph.engine.describing import describe_clash
from omnigraph.errors import Violation


def check_uniqueness(run: Evaluation, image: Image) -> None:
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


def _check_columns(run: Evaluation, image: Image, rows: pa.Table, columns: tuple[str, ...]) -> None:
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
    met = run.view.rows_where(owner.table_key, asked, image.rows.column(asked), ("id", *columns))
    if met.num_rows:
        _add(run, image, columns, _find_clashes(run, image, met, columns))


def _find_clashes(run: Evaluation, image: Image, met: pa.Table, columns: tuple[str, ...]) -> pa.Table | None:
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


def _add(run: Evaluation, image: Image, columns: tuple[str, ...], found: pa.Table | None) -> None:
    if found is not None:
        run.found.add(found.num_rows, _described(run, image, columns, found))


def _described(run: Evaluation, image: Image, columns: tuple[str, ...], found: pa.Table) -> Iterator[Violation]:
    owner, rows = image.type, image.part.rows
    describer = run.describer(image)
    for batch in found.to_batches():
        for row, other in zip(batch.column("row"), batch.column("other"), strict=True):
            at = row.as_py()
            value = display_tuple(owner, rows, at, columns)
            yield describe_clash(owner, columns, describer.place(at), value, other.as_py())
