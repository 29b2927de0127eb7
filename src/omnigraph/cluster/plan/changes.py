"""Changes: one resource that is to be made, updated or deleted, and what may be done about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from omnigraph.cluster.graphs import MigrationPreview
from omnigraph.records import record

MetadataChange = Literal["policy_bindings", "embedding_profile"]


class ChangeOperation(StrEnum):
    """What happens to a resource."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Disposition(StrEnum):
    """What an apply does about a change: it makes it, lets it follow from others, leaves it, or cannot make it yet."""

    APPLIED = "applied"
    DERIVED = "derived"
    DEFERRED = "deferred"
    BLOCKED = "blocked"

    @property
    def is_done(self) -> bool:
        """Whether nothing of the change is left after the apply."""
        return self in {Disposition.APPLIED, Disposition.DERIVED}


@record
class ResourceChange:
    """One difference between what is declared and what was applied.

    Args:
        resource: the address.
        operation: what happens to it.
        before_digest: what was applied.
        after_digest: what is declared.
        disposition: what an apply does about it.
        reason: why it is not done.
        binding_change: a policy comes to apply to something else.
        metadata_change: what differs where the digests do not.
        migration: the steps of a schema update, if the graph could be asked.
    """

    resource: str
    operation: ChangeOperation
    before_digest: str | None = None
    after_digest: str | None = None
    disposition: Disposition = Disposition.APPLIED
    reason: str | None = None
    binding_change: bool = False
    metadata_change: MetadataChange | None = None
    migration: MigrationPreview | None = None

    @property
    def kind(self) -> str:
        """The first word of the address: graph, schema, query, policy or provider."""
        return self.resource.partition(".")[0]

    @property
    def graph_id(self) -> str | None:
        """The graph that the resource is, or is a part of."""
        return graph_of(self.resource)

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        told = {
            "resource": self.resource,
            "operation": self.operation.value,
            "before_digest": self.before_digest,
            "after_digest": self.after_digest,
            "disposition": self.disposition.value,
            "reason": self.reason,
            "binding_change": self.binding_change or None,
            "metadata_change": self.metadata_change,
            "migration": None if self.migration is None else self.migration.to_json(),
        }
        return {name: value for name, value in told.items() if value is not None}

    def to_lines(self, *, with_disposition: bool) -> list[str]:
        """Return the change as a line, with a line for each step of a migration below it."""
        line = f"  {self.operation.value.capitalize()} {self.resource}"
        if self.binding_change:
            line += " [bindings]"
        if with_disposition or not self.disposition.is_done:
            reason = "" if self.reason is None else f": {self.reason}"
            line += f" [{self.disposition.value.capitalize()}{reason}]"
        steps = () if self.migration is None else self.migration.lines
        return [line, *(f"    {step}" for step in steps)]


def graph_of(address: str) -> str | None:
    """Return the graph that a resource is, or is a part of.

    >>> graph_of("graph.crm"), graph_of("query.crm.find"), graph_of("policy.acl")
    ('crm', 'crm', None)
    """
    kind, _, rest = address.partition(".")
    return rest.partition(".")[0] if kind in {"graph", "schema", "query"} else None
