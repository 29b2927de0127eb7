"""Why a change is refused: the stable part of each reason, which callers and documentation may look for.

One refusal of the planner's decision table has no constant: changing annotations other than ``@description`` and
``@instruction`` is a metadata step, so nothing is left to refuse there. The two ``adding`` reasons are about
``@key`` alone, because other constraints can be added and are validated.
"""

from __future__ import annotations

REQUIRES_BACKFILL = "requires a backfill"
PROPERTY_TYPE = "changing property type"
EMBED = "changing @embed source or model"
REMOVING_CONSTRAINTS = "removing constraints"
REMOVING_PROPERTY_CONSTRAINTS = "removing property constraints"
ADDING_CONSTRAINT = "adding constraint"
ADDING_PROPERTY_CONSTRAINT = "adding a property-level @"
EDGE_ENDPOINTS = "changing edge endpoints"
CARDINALITY = "changing cardinality"
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
    CARDINALITY,
    IMPLEMENTED_INTERFACES,
    REMOVING_INTERFACE,
    PROVENANCE,
    SATISFACTION,
    UNCLASSIFIED,
)
