"""The codes of schema lint. They count from 201, so that none is taken for a code of a migration step."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from omnigraph.catalog.migration.codes import Severity
from omnigraph.errors import Place
from omnigraph.records import record


@record
class LintCode:
    """A rule of schema lint; what the code means never changes."""

    code: str
    severity: Severity
    meaning: str


@record
class Finding:
    """One remark about a schema that compiles: what is doubtful about it, and where it stands."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    place: Place

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values; what it is not about is left out."""
        named = {"type_name": self.type_name, "property": self.property}
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            **{name: value for name, value in named.items() if value is not None},
            "place": {"line": self.place.line, "column": self.place.column},
        }


UNKNOWN_ANNOTATION = LintCode(
    code="OG-NM-201", severity=Severity.WARNING, meaning="annotation that nothing reads, perhaps a misspelt one"
)
NODE_NAME_CASE = LintCode(
    code="OG-NM-202", severity=Severity.WARNING, meaning="node types whose names differ only in letter case"
)
PROPERTY_NAME_CASE = LintCode(
    code="OG-NM-203", severity=Severity.WARNING, meaning="properties of one type whose names differ only in letter case"
)
ENDPOINT_NAME = LintCode(
    code="OG-NM-204", severity=Severity.WARNING, meaning="edge property that mutations cannot address: from, to"
)
TOMBSTONE_NAME = LintCode(
    code="OG-NM-205", severity=Severity.WARNING, meaning="property that load files cannot fill: _tombstone"
)
KEYLESS_EDGE = LintCode(
    code="OG-ED-201", severity=Severity.INFO, meaning="edge type without @key, so that loading a file twice doubles it"
)
MINIMUM_CARDINALITY = LintCode(
    code="OG-ED-202", severity=Severity.INFO, meaning="@card minimum, which does not oblige every node to have an edge"
)
KEYLESS_NODE = LintCode(
    code="OG-OW-201", severity=Severity.INFO, meaning="node type without @key, whose ids the graph makes up"
)
UNUSED_INTERFACE = LintCode(
    code="OG-OW-202", severity=Severity.WARNING, meaning="interface that no node type implements"
)
EMPTY_RANGE = LintCode(code="OG-MF-201", severity=Severity.ERROR, meaning="@range that no value can satisfy")
REDUNDANT_UNIQUE = LintCode(
    code="OG-LK-201", severity=Severity.WARNING, meaning="@unique over the columns that @key makes unique already"
)
REDUNDANT_INDEX = LintCode(
    code="OG-LK-202", severity=Severity.WARNING, meaning="@index that builds nothing, its columns being indexed anyway"
)
EMBED_WITHOUT_INDEX = LintCode(
    code="OG-VE-201", severity=Severity.INFO, meaning="@embed vector without @index, searched by a full scan"
)

LINT_CODES: Mapping[str, LintCode] = MappingProxyType(
    {
        row.code: row
        for row in (
            UNKNOWN_ANNOTATION,
            NODE_NAME_CASE,
            PROPERTY_NAME_CASE,
            ENDPOINT_NAME,
            TOMBSTONE_NAME,
            KEYLESS_EDGE,
            MINIMUM_CARDINALITY,
            KEYLESS_NODE,
            UNUSED_INTERFACE,
            EMPTY_RANGE,
            REDUNDANT_UNIQUE,
            REDUNDANT_INDEX,
            EMBED_WITHOUT_INDEX,
        )
    }
)
