"""``validate_cluster``: a directory checked on its own, without looking at what has been applied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph.cluster.config.reading import read_cluster
from omnigraph.cluster.declaration import ClusterDeclaration
from omnigraph.cluster.diagnostics import Findings
from omnigraph.records import record
from omnigraph.values.counts import counted


@record
class ClusterValidation:
    """What a directory declares and what is wrong with it.

    Args:
        config_dir: the directory, as it was named.
        declaration: what it declares, if its config can be read.
        findings: what was found.
    """

    config_dir: str
    declaration: ClusterDeclaration | None
    findings: Findings

    @property
    def is_valid(self) -> bool:
        """Whether it can be applied as it stands."""
        return not self.findings.has_errors

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        found = self.declaration
        return {
            "ok": self.is_valid,
            "config_dir": self.config_dir,
            "diagnostics": [finding.to_json() for finding in self.findings.items],
            "config_file": None if found is None else found.config_file,
            "resource_digests": {} if found is None else found.resource_digests,
            "resources": [] if found is None else [one.to_json() for one in found.resources],
            "dependencies": [] if found is None else [one.to_json() for one in found.dependencies],
        }

    def to_lines(self) -> Iterable[str]:
        """One line that sums it up, if it is valid."""
        found = self.declaration
        if found is None or not self.is_valid:
            return []
        edges = counted(len(found.dependencies), "dependency edge")
        return [f"cluster config valid: {counted(len(found.resources), 'resource')}, {edges}"]

    def to_remarks(self) -> Iterable[str]:
        """What was found."""
        return [finding.to_text() for finding in self.findings.items]


def validate_cluster(config_dir: str) -> ClusterValidation:
    """Check a directory; graphs that take in no external blobs are pointed out."""
    reading = read_cluster(config_dir)
    declaration, findings = reading.declaration, reading.findings
    for graph in () if declaration is None else declaration.graphs.values():
        if not graph.external_blobs.bases:
            message = f"graph '{graph.graph_id}' allows no external blobs; list allowed prefixes in external_blobs"
            findings.add("external_blob_ingress_default_deny", graph.address, message)
    return ClusterValidation(config_dir=config_dir, declaration=declaration, findings=findings)
