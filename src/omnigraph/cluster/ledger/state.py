"""``state.json``: what has been made to exist, with the digest of each resource, and what was seen and done since."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

import msgspec

from omnigraph.cluster.config.section import RESOURCE_ID
from omnigraph.cluster.ledger.approvals import Approval
from omnigraph.cluster.ledger.documents import ClusterDocument, state_error
from omnigraph.cluster.ledger.place import STATE, ClusterPlace
from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.values.patterns import late_pattern

VERSION = 1

StatusWord = Literal["pending", "planned", "applying", "applied", "drifted", "blocked", "error"]
MoveKind = Literal["graph_create", "schema_apply", "graph_delete"]
"""What can be done to a graph itself: to make it, to change its schema, to delete it."""


class StoredProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The profile of an embedding provider; the key is a reference to a variable."""

    kind: str
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None


class StoredBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder whose objects Blobs of a graph may be given as."""

    uri: str
    scope: Literal["server_safe", "embedded_only"]


class StoredBlobPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which external blobs a graph takes in."""

    mode: Literal["allow"]
    bases: tuple[StoredBase, ...]


class StoredResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A resource as it was applied: its digest, and what the digest alone does not tell.

    ``applies_to`` is for policies, ``embedding_profile`` for providers, the other two for graphs.
    """

    digest: str
    applies_to: tuple[str, ...] | None = None
    embedding_profile: StoredProfile | None = None
    embedding_provider: str | None = None
    external_blob_policy: StoredBlobPolicy | None = None


class AppliedRevision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was applied. ``config_digest`` is there once nothing of a config was left to do."""

    config_digest: str | None = None
    resources: dict[str, StoredResource] = msgspec.field(default_factory=dict)


class ResourceStatus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a resource is."""

    status: StatusWord
    conditions: tuple[str, ...] = ()
    message: str | None = None


class RecoveryRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a change of a graph that broke off."""

    kind: MoveKind
    graph_id: str
    outcome: str
    recovered_at: str
    actor: str | None = None


class GraphObservation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="graph"
):
    """A graph as it was last looked at."""

    address: str
    graph_uri: str
    observed_at: str
    exists: bool
    graph_manifest_version: int | None = None
    schema_digest: str | None = None
    desired_schema_digest: str | None = None
    schema_matches_desired: bool | None = None
    error: str | None = None


class Tombstone(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="tombstone"
):
    """What a deleted graph leaves."""

    deleted_at: str
    approval_id: str | None = None
    actor: str | None = None


class LedgerState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that the ledger says."""

    version: int
    applied_revision: AppliedRevision
    state_revision: int = 0
    resource_statuses: dict[str, ResourceStatus] = msgspec.field(default_factory=dict)
    approval_records: dict[str, Approval] = msgspec.field(default_factory=dict)
    recovery_records: dict[str, RecoveryRecord] = msgspec.field(default_factory=dict)
    observations: dict[str, GraphObservation | Tombstone] = msgspec.field(default_factory=dict)

    @property
    def resources(self) -> Mapping[str, StoredResource]:
        """The resources that were applied, by address."""
        return self.applied_revision.resources

    @property
    def resource_digests(self) -> dict[str, str]:
        """The digests of the resources that were applied, by address."""
        return {address: found.digest for address, found in sorted(self.resources.items())}


EMPTY = LedgerState(version=VERSION, applied_revision=AppliedRevision())
"""What a ledger that does not exist says."""


@record
class StoredLedger:
    """The ledger as it was read. ``cas`` tells its content apart, ``tag`` is what storage compares."""

    state: LedgerState = EMPTY
    cas: str | None = None
    tag: str | None = field(default=None, repr=False)

    @property
    def exists(self) -> bool:
        """Whether there is a ledger."""
        return self.tag is not None


class LedgerFile:
    """``state.json`` of a cluster."""

    def __init__(self, place: ClusterPlace) -> None:
        self._place = place
        self.path = place.shown(STATE)

    def read(self) -> StoredLedger:
        """Return what is stored, and an empty ledger where nothing is.

        Raises:
            ClusterStateError: it cannot be read, or cannot be understood.
        """
        try:
            found = self._place.objects.read_tagged(STATE)
        except OmnigraphError as problem:
            message = f"cannot read the ledger: {problem.message}"
            raise state_error("state_read_error", self.path, message) from problem
        if found is None:
            return StoredLedger()
        state = _DOCUMENT.decode(found.data, self.path)
        return StoredLedger(state=state, cas=content_id(found.data), tag=found.tag)

    def write(self, state: LedgerState, base: StoredLedger) -> StoredLedger:
        """Store a state if the ledger is still what it was when ``base`` was read.

        Raises:
            ClusterStateError: another process has changed it, or it cannot be written.
        """
        ordered = _sorted(state)
        data = _DOCUMENT.encode(ordered)
        objects = self._place.objects
        try:
            is_ours = objects.create(STATE, data) if base.tag is None else objects.replace(STATE, data, base.tag)
        except OmnigraphError as problem:
            message = f"cannot write the ledger: {problem.message}"
            raise state_error("state_write_error", self.path, message) from problem
        if not is_ours:
            message = "another process has changed the ledger since it was read; run the command again"
            raise state_error("state_cas_mismatch", self.path, message)
        # What storage compares next time is known to nobody yet; a command writes once.
        return StoredLedger(state=ordered, cas=content_id(data), tag="")


def content_id(data: bytes) -> str:
    """Return what tells the content of a ledger apart.

    >>> content_id(b"{}")[:20]
    'sha256:44136fa355b36'
    """
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _sorted(state: LedgerState) -> LedgerState:
    """Return the same state with all names in order, so that equal states are equal texts."""
    revision = msgspec.structs.replace(state.applied_revision, resources=_ordered(state.resources))
    return msgspec.structs.replace(
        state,
        applied_revision=revision,
        resource_statuses=_ordered(state.resource_statuses),
        approval_records=_ordered(state.approval_records),
        recovery_records=_ordered(state.recovery_records),
        observations=_ordered(state.observations),
    )


def _ordered(found: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(found.items()))


_OLD, _NEW = "manifest_version", "graph_manifest_version"


_WORDS_OF_KIND = {"graph": 1, "schema": 1, "query": 2, "policy": 1, "provider": 2}
_DIGEST = late_pattern(r"[0-9a-f]+")


def _prepare(raw: dict[str, Any], path: str) -> None:
    """Bring a ledger into the present form, and refuse addresses and digests that could lead out of the cluster.

    Raises:
        ClusterStateError: a resource has no proper address or digest, or an observation contradicts itself.
    """
    _rename_observed_versions(raw, path)
    revision = raw.get("applied_revision")
    resources = revision.get("resources", {}) if isinstance(revision, dict) else {}
    for address, resource in resources.items() if isinstance(resources, dict) else ():
        kind, *words = address.split(".")
        count = _WORDS_OF_KIND.get(kind)
        digest = resource.get("digest", "") if isinstance(resource, dict) else ""
        is_address = count is None or (len(words) == count and all(map(RESOURCE_ID.fullmatch, words)))
        if not is_address or (isinstance(digest, str) and digest and not _DIGEST.fullmatch(digest)):
            message = f"cannot read ledger '{path}': '{address}' is not the address of a resource with a digest"
            raise state_error("invalid_state_json", path, message)


def _rename_observed_versions(raw: dict[str, Any], path: str) -> None:
    """Bring observations of earlier versions into the present form.

    Raises:
        ClusterStateError: one has the version under both names, and they differ.
    """
    observations = raw.get("observations")
    if not isinstance(observations, dict):
        return
    for address, observation in observations.items():
        if not isinstance(observation, dict) or _OLD not in observation:
            continue
        old = observation.pop(_OLD)
        if observation.setdefault(_NEW, old) != old:
            message = (
                f"the observation of {address} has manifest version {old} by its old name and {observation[_NEW]} by "
                "its name of today"
            )
            raise state_error("conflicting_graph_manifest_observation", path, message)


_DOCUMENT = ClusterDocument(
    LedgerState,
    version_member="version",
    what="ledger",
    invalid="invalid_state_json",
    unsupported="unsupported_state_version",
    prepare=_prepare,
)
