"""The difference between what a config declares and what the ledger says, resource by resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph.cluster.declaration import BlobPolicy, ClusterDeclaration, EmbeddingProfile, graph_address
from omnigraph.cluster.ledger.state import StoredBase, StoredBlobPolicy, StoredProfile, StoredResource
from omnigraph.cluster.plan.changes import ChangeOperation, MetadataChange, ResourceChange


def desired_resources(declaration: ClusterDeclaration) -> dict[str, StoredResource]:
    """Return every resource that is declared as the ledger would hold it, by address."""
    found = {address: StoredResource(digest=digest) for address, digest in declaration.resource_digests.items()}
    for graph in declaration.graphs.values():
        found[graph.address] = StoredResource(
            digest=graph.digest,
            embedding_provider=graph.provider,
            external_blob_policy=stored_policy(graph.external_blobs),
        )
    for policy in declaration.policies.values():
        found[policy.address] = StoredResource(digest=policy.digest, applies_to=policy.applies_to)
    for provider in declaration.providers.values():
        profile = stored_profile(provider.profile)
        found[provider.address] = StoredResource(digest=provider.digest, embedding_profile=profile)
    return found


def stored_profile(profile: EmbeddingProfile) -> StoredProfile:
    """Return the profile of a provider as the ledger holds it."""
    return StoredProfile(**profile.to_json())


def stored_policy(policy: BlobPolicy) -> StoredBlobPolicy | None:
    """Return which external blobs a graph takes in as the ledger holds it; None if it takes in none."""
    if not policy.bases:
        return None
    bases = tuple(StoredBase(uri=base.uri, scope=base.scope.value) for base in policy.bases)
    return StoredBlobPolicy(mode="allow", bases=bases)


def diff_resources(
    desired: Mapping[str, StoredResource], applied: Mapping[str, StoredResource]
) -> tuple[ResourceChange, ...]:
    """Return a change for every resource that differs, by address."""
    changes = [*_made_or_updated(desired, applied), *_deleted(desired, applied)]
    return tuple(sorted(changes, key=lambda change: change.resource))


def _made_or_updated(
    desired: Mapping[str, StoredResource], applied: Mapping[str, StoredResource]
) -> Iterator[ResourceChange]:
    for address, after in desired.items():
        before = applied.get(address)
        if before is None:
            yield ResourceChange(
                resource=address,
                operation=ChangeOperation.CREATE,
                after_digest=after.digest,
                binding_change=False,
            )
            continue
        metadata = _metadata_change(before, after)
        if before.digest == after.digest and metadata is None:
            continue
        yield ResourceChange(
            resource=address,
            operation=ChangeOperation.UPDATE,
            before_digest=before.digest,
            after_digest=after.digest,
            binding_change=metadata == "policy_bindings",
            metadata_change=metadata if before.digest == after.digest else None,
        )


def _metadata_change(before: StoredResource, after: StoredResource) -> MetadataChange | None:
    if before.applies_to != after.applies_to:
        return "policy_bindings"
    if before.embedding_profile != after.embedding_profile:
        return "embedding_profile"
    return None


def _deleted(desired: Mapping[str, StoredResource], applied: Mapping[str, StoredResource]) -> Iterator[ResourceChange]:
    for address, before in applied.items():
        if address not in desired:
            yield ResourceChange(resource=address, operation=ChangeOperation.DELETE, before_digest=before.digest)


def is_graph_change(change: ResourceChange, operation: ChangeOperation) -> bool:
    """Whether a change makes, updates or deletes a graph itself."""
    return change.operation is operation and change.resource == graph_address(change.graph_id or "")
