"""Approvals: consent of a person to one destructive change, bound to the digests that the person has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger.documents import ClusterDocument, state_error
from omnigraph.cluster.ledger.place import APPROVALS, ClusterPlace
from omnigraph.errors import ClusterStateError, OmnigraphError
from omnigraph.records import record


class Approval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One approval. It is never deleted; ``consumed_at`` says that it was used."""

    schema_version: int
    approval_id: str
    resource: str
    operation: str
    reason: str
    bound_config_digest: str
    bound_before_digest: str | None
    bound_after_digest: str | None
    approved_by: str
    created_at: str
    consumed_at: str | None = None
    consumed_by_operation: str | None = None


_DOCUMENT = ClusterDocument(
    Approval,
    version_member="schema_version",
    what="approval",
    invalid="invalid_approval_artifact",
    unsupported="unsupported_approval_version",
)


@record
class ApprovalBinding:
    """The change that an approval must be about: the resource, what is done to it, and all digests as they are."""

    resource: str
    operation: str
    config_digest: str
    before_digest: str | None
    after_digest: str | None

    def is_about(self, approval: Approval) -> bool:
        """Whether an approval is about this resource and operation, whatever digests it was given for."""
        return (approval.resource, approval.operation) == (self.resource, self.operation)

    def matches(self, approval: Approval) -> bool:
        """Whether an approval is about this change exactly as it is now."""
        bound = (approval.bound_config_digest, approval.bound_before_digest, approval.bound_after_digest)
        return self.is_about(approval) and bound == (self.config_digest, self.before_digest, self.after_digest)


class ApprovalStore:
    """The approvals of a cluster."""

    def __init__(self, place: ClusterPlace) -> None:
        self._place = place

    def read_all(self, findings: Findings) -> tuple[Approval, ...]:
        """Return every approval that can be read, oldest first; findings name the others, which count for nothing."""
        found = []
        try:
            keys = self._place.objects.list_keys(APPROVALS)
        except OmnigraphError as problem:
            message = f"the approvals cannot be listed: {problem.message}"
            findings.add("approval_read_error", self._place.shown(APPROVALS), message)
            return ()
        for key in keys:
            try:
                approval = self._read(key)
            except ClusterStateError as problem:
                findings.add(problem.details.finding, problem.details.path, problem.message)
            else:
                found.append(approval)
        return tuple(approval for approval in found if approval is not None)

    def find(self, approval_id: str) -> Approval | None:
        """Return an approval, None when there is none of that id.

        Raises:
            ClusterStateError: it cannot be read.
        """
        return self._read(_key(approval_id))

    def write(self, approval: Approval) -> None:
        """Store an approval, or that it was used.

        Raises:
            ClusterStateError: ``approval_write_error``.
        """
        key = _key(approval.approval_id)
        try:
            self._place.objects.put(key, _DOCUMENT.encode(approval), sync=True)
        except OmnigraphError as problem:
            message = f"cannot store the approval: {problem.message}"
            raise state_error("approval_write_error", self._place.shown(key), message) from problem

    def _read(self, key: str) -> Approval | None:
        path = self._place.shown(key)
        try:
            data = self._place.objects.get(key)
        except OmnigraphError as problem:
            raise state_error("approval_read_error", path, f"cannot read the approval: {problem.message}") from problem
        return None if data is None else _DOCUMENT.decode(data, path)


def select_approval(
    approvals: Iterable[Approval],
    binding: ApprovalBinding,
    is_used: Callable[[Approval], bool],
    findings: Findings,
) -> Approval | None:
    """Return the oldest approval of a change that was not used yet; a finding names those that no longer match."""
    unused = [one for one in approvals if binding.is_about(one) and one.consumed_at is None and not is_used(one)]
    matching = next(filter(binding.matches, unused), None)
    if matching is None:
        for stale in unused:
            message = (
                f"approval {stale.approval_id} of {stale.approved_by} is for another state of the config or of the "
                "ledger; approve the change again"
            )
            findings.add("approval_stale", binding.resource, message)
    return matching


def _key(approval_id: str) -> str:
    return f"{APPROVALS}/{approval_id}.json"
