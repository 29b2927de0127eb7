"""The migration planner: what it takes to move a graph from its accepted schema to a desired one.

What the planner refuses follows the schema language's decision table, with these settled differences:

* Adding ``@unique``, ``@range`` or ``@check`` to an accepted type is a supported ``add_constraint`` step. It says
  ``validate`` if existing rows could contradict it; on a property that is added nullable none can.
* Removing a constraint is ``drop_constraint``, and changing its bounds or pattern is that and an addition, which is
  validated unless it follows from what held before: a wider range, a unique tuple with more columns.
* A cardinality changes in both directions; bounds that leave out what was allowed are validated.
* Numbers move to a type that holds all of their values (``widen_property``); the tables are rewritten.
* Every change of a key is refused: entity ids derive from it.
* Dropping a property that is not part of the key drops its constraints with it, each listed as ``drop_constraint``.
* Required to nullable is ``make_nullable``; nullable to required is ``make_required``, to be validated. Beside a wider
  type or enum they are a step of their own.
* A required property is added if it has a ``@default``, which existing rows then hold; where a nullable property
  becomes required, those without a value get it, and there is nothing to validate.
* Changing annotations of any name is a metadata step with the whole list of annotations that holds afterwards.
* A constraint on a property and the same one in the body are the same, as are key columns in another order; the
  accepted order of a key is kept.
* Drops carry their ``OG-DS`` codes, soft or hard.
"""

from omnigraph.catalog.migration.codes import FAMILIES, STEP_CODES, Severity, StepCode, Tier
from omnigraph.catalog.migration.constraint import DeclaredConstraint
from omnigraph.catalog.migration.planner import MigrationPlan, plan_creation, plan_migration
from omnigraph.catalog.migration.resolve import PLAN_RULES, HintDiagnostic
from omnigraph.catalog.migration.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    DropConstraint,
    DropProperty,
    DropType,
    ExtendEnum,
    MakeNullable,
    MakeRequired,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)

__all__ = [
    "FAMILIES",
    "PLAN_RULES",
    "STEP_CODES",
    "AddConstraint",
    "AddProperty",
    "AddType",
    "ChangeCardinality",
    "DeclaredConstraint",
    "DropConstraint",
    "DropProperty",
    "DropType",
    "ExtendEnum",
    "HintDiagnostic",
    "MakeNullable",
    "MakeRequired",
    "MigrationPlan",
    "RenameProperty",
    "RenameType",
    "Severity",
    "Step",
    "StepCode",
    "Tier",
    "UnsupportedChange",
    "UpdatePropertyMetadata",
    "UpdateTypeMetadata",
    "WidenProperty",
    "plan_creation",
    "plan_migration",
]
