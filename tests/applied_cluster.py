"""Clusters that were applied, for tests of what serves them and of commands on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omnigraph.cluster.ledger.state import LedgerFile
from omnigraph.cluster.reports import ApplyReport
from omnigraph.cluster.serving import ClusterPlace, find_root
from omnigraph.cluster.session import ClusterSession


def apply_directory(
    directory: Path, *, options: Mapping[str, str] | None = None, actor: str | None = None
) -> ApplyReport:
    """Apply a directory, after an import if it has no ledger yet, and return the report; nothing must be left to do."""
    session = ClusterSession(str(directory), options=options)
    if not LedgerFile(ClusterPlace(find_root(str(directory)), options)).read().exists:
        imported = session.import_graphs()
        assert imported.is_ok, imported.findings.items
    applied = session.apply(actor=actor)
    assert applied.is_ok, applied.findings.items
    assert applied.is_converged
    return applied
