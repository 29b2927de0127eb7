"""From a declaration to everything that is wrong with it: by itself, against a schema, and with Spark its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.errors import Mistake
from omnigraph.pipelines.check.settings import setting_mistakes
from omnigraph.pipelines.mistakes import mistake_at, refuse
from omnigraph.pipelines.model import Declaration
from omnigraph.pipelines.order import graph_mistakes


def find_mistakes(
    declaration: Declaration,
    catalog: Catalog | None = None,
    spark: Any = None,
    sources: Mapping[str, Any] | None = None,
    *,
    is_stream: bool = False,
    storage: Mapping[str, str] | None = None,
) -> tuple[Mistake, ...]:
    """Return everything that is wrong with a declaration, in the order of its lines.

    Args:
        declaration: the pipeline.
        catalog: the schema of its graph; what depends on one is not looked at without it.
        spark: a session. With it functions are called, on frames without rows, and their columns are looked at; no
            row is read.
        sources: frames of sources that are there already, so that their functions are not called again.
        is_stream: every source gives what is new alone, whatever it declares.
        storage: how buckets are reached that sources lie in; as the environment says when None.
    """
    found = [*_own_mistakes(declaration)]
    has_order = not [*graph_mistakes(declaration)]
    if catalog is not None:
        from omnigraph.pipelines.check.queries import query_mistakes  # noqa: PLC0415 - it brings the engine
        from omnigraph.pipelines.check.resolutions import resolution_mistakes  # noqa: PLC0415 - see above
        from omnigraph.pipelines.check.types import type_mistakes  # noqa: PLC0415 - see above

        found += resolution_mistakes(declaration, catalog, is_stream=is_stream)
        found += [*type_mistakes(declaration, catalog), *query_mistakes(declaration, catalog)]
    if spark is not None and has_order:
        from omnigraph.pipelines.check.columns import column_mistakes  # noqa: PLC0415 - it brings Spark

        found += column_mistakes(declaration, catalog, spark, sources or {}, is_stream=is_stream, storage=storage)
    ordered = sorted(found, key=lambda one: (one.file, one.line))
    return tuple(dict.fromkeys(ordered))


def validate(
    declaration: Declaration,
    catalog: Catalog | None = None,
    spark: Any = None,
    sources: Mapping[str, Any] | None = None,
    *,
    is_stream: bool = False,
    storage: Mapping[str, str] | None = None,
) -> None:
    """Return if nothing is wrong with a declaration; see :func:`find_mistakes`.

    Raises:
        PipelineInvalidError: something is; its details have everything.
    """
    found = find_mistakes(declaration, catalog, spark, sources, is_stream=is_stream, storage=storage)
    refuse(declaration.name, found)


def _own_mistakes(declaration: Declaration) -> Iterator[Mistake]:
    keeps = any(step.same_as is not None for step in declaration.resolves)
    if not declaration.types and not declaration.afters and not keeps:
        yield mistake_at(declaration.place, "the pipeline writes nothing", hint="declare a node, an edge or an after")
    yield from graph_mistakes(declaration)
    yield from setting_mistakes(declaration)
