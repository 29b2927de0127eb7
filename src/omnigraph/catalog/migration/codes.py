"""The codes of migration steps: a code names a rule for good and never changes its meaning.

``OG-DS-101`` stands in the table because its number is taken, but nothing emits it: a graph has one schema and no
type of its own, so a step that drops "the graph's type" does not exist. Dropping the last type is an ordinary
``drop_type`` with the code of its kind.

One refusal of the planner's decision table has no constant: changing annotations other than ``@description`` and
``@instruction`` is a metadata step, so nothing is left to refuse there. The two ``adding`` reasons are about
``@key`` alone, because other constraints can be added and are validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from omnigraph.records import record


class Tier(StrEnum):
    """What a change asks of existing rows: nothing, a look at them, or their loss."""

    SAFE = "safe"
    VALIDATED = "validated"
    DESTRUCTIVE = "destructive"


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@record
class StepCode:
    """One row of the table. ``emitted`` is false for a number that is only kept from being used again."""

    code: str
    tier: Tier
    severity: Severity
    meaning: str
    emitted: bool = True

    @property
    def family(self) -> str:
        """The two letters in the middle.

        >>> DROP_NODE_TYPE.family
        'DS'
        """
        return self.code.split("-")[1]

    def __str__(self) -> str:
        return self.code


FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "DS": "destructive",
        "MF": "maybe-fail",
        "CD": "constraint deletion",
        "BC": "backward-incompatible",
        "NM": "naming",
        "OW": "ownership",
        "NL": "non-linear (branch divergence)",
        "VE": "vector/embedding",
        "ED": "edge topology",
        "LK": "lock/cost",
    }
)

DROP_GRAPH_TYPE = StepCode(
    code="OG-DS-101",
    tier=Tier.DESTRUCTIVE,
    severity=Severity.ERROR,
    meaning="drop populated graph type",
    emitted=False,
)
DROP_NODE_TYPE = StepCode(
    code="OG-DS-102", tier=Tier.DESTRUCTIVE, severity=Severity.ERROR, meaning="drop populated node type"
)
DROP_EDGE_TYPE = StepCode(
    code="OG-DS-103", tier=Tier.DESTRUCTIVE, severity=Severity.ERROR, meaning="drop populated edge type"
)
DROP_PROPERTY = StepCode(
    code="OG-DS-104", tier=Tier.DESTRUCTIVE, severity=Severity.ERROR, meaning="drop property from populated type"
)
DROP_VECTOR_PROPERTY = StepCode(
    code="OG-DS-105", tier=Tier.DESTRUCTIVE, severity=Severity.ERROR, meaning="drop populated vector property"
)
ADD_REQUIRED_PROPERTY = StepCode(
    code="OG-MF-103", tier=Tier.VALIDATED, severity=Severity.ERROR, meaning="add required property without default"
)
TIGHTEN_TO_REQUIRED = StepCode(
    code="OG-MF-104", tier=Tier.VALIDATED, severity=Severity.ERROR, meaning="tighten nullable to required"
)
CHANGE_PROPERTY_TYPE = StepCode(
    code="OG-MF-106", tier=Tier.DESTRUCTIVE, severity=Severity.ERROR, meaning="property type change"
)

STEP_CODES: Mapping[str, StepCode] = MappingProxyType(
    {
        row.code: row
        for row in (
            DROP_GRAPH_TYPE,
            DROP_NODE_TYPE,
            DROP_EDGE_TYPE,
            DROP_PROPERTY,
            DROP_VECTOR_PROPERTY,
            ADD_REQUIRED_PROPERTY,
            TIGHTEN_TO_REQUIRED,
            CHANGE_PROPERTY_TYPE,
        )
    }
)


REQUIRES_BACKFILL = "requires a backfill"
PROPERTY_TYPE = "changing property type"
EMBED = "changing @embed source or model"
REMOVING_CONSTRAINTS = "removing constraints"
REMOVING_PROPERTY_CONSTRAINTS = "removing property constraints"
ADDING_CONSTRAINT = "adding constraint"
ADDING_PROPERTY_CONSTRAINT = "adding a property-level @"
EDGE_ENDPOINTS = "changing edge endpoints"
IMPLEMENTED_INTERFACES = "changing implemented interfaces"
REMOVING_INTERFACE = "removing interface"
PROVENANCE = "declaration provenance"
SATISFACTION = "satisfaction links"
UNCLASSIFIED = "unclassified"

FRAGMENTS: tuple[str, ...] = (
    REQUIRES_BACKFILL,
    PROPERTY_TYPE,
    EMBED,
    REMOVING_CONSTRAINTS,
    REMOVING_PROPERTY_CONSTRAINTS,
    ADDING_CONSTRAINT,
    ADDING_PROPERTY_CONSTRAINT,
    EDGE_ENDPOINTS,
    IMPLEMENTED_INTERFACES,
    REMOVING_INTERFACE,
    PROVENANCE,
    SATISFACTION,
    UNCLASSIFIED,
)
