"""Sidecars: what says that a graph is about to be made, changed or deleted, until the ledger says that it was."""

from __future__ import annotations

from typing import Any

import msgspec

from omnigraph.cluster.config.section import RESOURCE_ID
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger.documents import ClusterDocument, state_error
from omnigraph.cluster.ledger.place import RECOVERIES, ClusterPlace
from omnigraph.cluster.ledger.state import MoveKind
from omnigraph.errors import ClusterStateError, OmnigraphError

# What the name of every sidecar ends with.
SUFFIX = ".json"
_SHOWN = 100


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of one graph that is under way, or that broke off.

    ``observed_manifest_version`` is that of the graph before, ``expected_manifest_version`` that after the change.
    """

    schema_version: int
    operation_id: str
    started_at: str
    kind: MoveKind
    graph_id: str
    graph_uri: str
    actor: str | None = None
    observed_manifest_version: int | None = None
    expected_manifest_version: int | None = None
    desired_schema_digest: str | None = None
    state_cas_base: str | None = None
    approval_id: str | None = None


def _check_graph(raw: dict[str, Any], path: str) -> None:
    graph_id = raw.get("graph_id")
    if isinstance(graph_id, str) and graph_id and not RESOURCE_ID.fullmatch(graph_id):
        message = f"cannot read recovery sidecar '{path}': '{graph_id[:_SHOWN]}' is not the id of a graph"
        raise state_error("invalid_recovery_sidecar", path, message)


_DOCUMENT = ClusterDocument(
    Sidecar,
    version_member="schema_version",
    what="recovery sidecar",
    invalid="invalid_recovery_sidecar",
    unsupported="unsupported_recovery_sidecar_version",
    prepare=_check_graph,
)


class SidecarStore:
    """The sidecars of a cluster."""

    def __init__(self, place: ClusterPlace) -> None:
        self._place = place

    def read_all(self, findings: Findings) -> tuple[Sidecar, ...]:
        """Return every sidecar that can be read, oldest first; findings name the others, which are kept."""
        try:
            keys = self._place.objects.list_keys(RECOVERIES)
        except OmnigraphError as problem:
            message = f"the recovery sidecars cannot be listed: {problem.message}"
            findings.add("recovery_sidecar_read_error", self._place.shown(RECOVERIES), message)
            return ()
        found = []
        for key in keys:
            if not key.endswith(SUFFIX):
                message = f"'{key}' is no recovery sidecar, and no change depends on it; move it away"
                findings.add("invalid_recovery_sidecar", self._place.shown(key), message)
                continue
            try:
                sidecar = self._read(key)
            except ClusterStateError as problem:
                findings.add(problem.details.finding, problem.details.path, problem.message)
            else:
                found.append(sidecar)
        return tuple(sidecar for sidecar in found if sidecar is not None)

    def write(self, sidecar: Sidecar) -> None:
        """Store a sidecar, or what has become known of its change.

        Raises:
            ClusterStateError: ``recovery_sidecar_write_error``.
        """
        key = _key(sidecar)
        try:
            self._place.objects.put(key, _DOCUMENT.encode(sidecar), sync=True)
        except OmnigraphError as problem:
            message = f"cannot write the recovery sidecar of graph '{sidecar.graph_id}': {problem.message}"
            raise state_error("recovery_sidecar_write_error", self._place.shown(key), message) from problem

    def remove(self, sidecar: Sidecar, findings: Findings) -> None:
        """Remove a sidecar whose change the ledger knows; a finding tells of one that stays."""
        key = _key(sidecar)
        try:
            self._place.objects.delete(key)
        except OmnigraphError as problem:
            message = f"the recovery sidecar stays, the next command removes it: {problem.message}"
            findings.add("recovery_sidecar_cleanup_failed", self._place.shown(key), message)

    def path(self, sidecar: Sidecar) -> str:
        """Return how findings name a sidecar."""
        return self._place.shown(_key(sidecar))

    def _read(self, key: str) -> Sidecar | None:
        path = self._place.shown(key)
        try:
            data = self._place.objects.get(key)
        except OmnigraphError as problem:
            message = f"cannot read the recovery sidecar: {problem.message}"
            raise state_error("recovery_sidecar_read_error", path, message) from problem
        return None if data is None else _DOCUMENT.decode(data, path)


def _key(sidecar: Sidecar) -> str:
    return f"{RECOVERIES}/{sidecar.operation_id}{SUFFIX}"
