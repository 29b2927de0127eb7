"""How the rows of a step are read by tasks, as far as the step and the columns of its frame tell."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import INTEGERS, EdgeType, Scalar
from omnigraph.engine.load import Source
from omnigraph.engine.load.sources.dialect import Dialect
from omnigraph.errors import BadValue, UsageError, Violation
from omnigraph.history.origins import RunOrigins
from omnigraph.spark.loads.frames import FrameRows, bind_frame
from omnigraph.spark.steps.reading import StepReader
from omnigraph.spark.steps.rows import PreparedRows, StepRows

_ORDERING = frozenset({*INTEGERS, Scalar.DATE, Scalar.DATETIME})


def refuse_shared(steps: Sequence[StepRows]) -> None:
    """Refuse two steps for one type: of their rows nobody could say what became of whose.

    Raises:
        UsageError: there are two.
    """
    owners: dict[str, str] = {}
    for step in steps:
        if step.table_key in owners:
            details = BadValue(what="step", value=step.name, expected="one step for each type")
            raise UsageError(
                f"steps '{owners[step.table_key]}' and '{step.name}' both write {step.table_key}",
                details=details,
                hint="join their rows in a view with UNION ALL",
            )
        owners[step.table_key] = step.name


def keeps_originals(step: StepRows) -> bool:
    """Whether rows of a step may be put aside when only their numbers are known, so that they are kept as they came."""
    quarantines = any(rule.outcome == "quarantine" for rule in step.rules)
    return step.missing_end == "quarantine" or (quarantines and not step.is_ordered)


def sequence_property(prepared: PreparedRows) -> str | None:
    """Return the property that holds what rows are ordered by, if one does."""
    step = prepared.step
    if step.sequence is None:
        return None
    said = step.sequence.strip().strip("`")
    for prop in prepared.owner.properties:
        if prop.type.is_list or prop.type.scalar not in _ORDERING:
            continue
        if step.set.get(prop.name, prop.name).strip().strip("`") == said:
            is_column = prop.name in step.set or prop.name in prepared.originals
            return prop.name if is_column else None
    return None


def bound_reader(
    prepared: PreparedRows, catalog: Catalog, *, as_log: bool, origins: RunOrigins | None = None
) -> StepReader | list[Violation]:
    """Return how the rows of a step are read, or what is wrong with its columns."""
    from omnigraph.spark.source.types import wire_schema  # noqa: PLC0415 - it brings Spark

    step = prepared.step
    title = f"<{step.name}>"
    columns = wire_schema(prepared.frame.schema)
    for end in prepared.ends:
        columns = columns.append(pa.field(end.target, pa.string()))
    source = Source(
        path=title,
        format="parquet",
        type_name=step.table_key,
        columns=prepared.mapped,
        dialect=Dialect(ignore_extra_columns=True),
        takes_changes=as_log,
        takes_texts=True,
    )
    # A column that another one stands for is not taken by its name as well.
    hidden = {name for name in prepared.mapped if name in columns.names and name not in prepared.mapped.values()}
    aliases = {"from": "src", "to": "dst"} if isinstance(prepared.owner, EdgeType) else {}
    hidden |= {aliases[name] for name in prepared.mapped if name in aliases and aliases[name] in columns.names}
    seen = pa.schema([at for at in columns if at.name not in hidden])
    found = bind_frame(source, catalog, seen)
    if not isinstance(found, FrameRows) or found.binding is None:
        problems = found if isinstance(found, tuple) else ()
        return [one for problem in problems for one in problem.violations(title)]
    return StepReader(
        title=title,
        binding=found.binding,
        originals=prepared.originals,
        rules=step.rules,
        rule_columns=prepared.rule_columns,
        ends=prepared.ends,
        place=prepared.place,
        keeps_originals=keeps_originals(step),
        origins=origins,
    )
