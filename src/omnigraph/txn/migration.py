"""Raising the storage format of one branch: a publish like any other, which changes no row.

Of two migrations one publishes, and the other finds its work done. A migration that dies is finished by whoever
recovers its claim. Versions of omnigraph that only know the old format refuse the branch from its next version on.
"""

from __future__ import annotations

from omnigraph.txn.manifest.codec import FormatChain
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import Commit, ManifestChange
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.plan import PublishPlan
from omnigraph.txn.publish.retention import Recover, publish_alone
from omnigraph.txn.services import BranchServices
from omnigraph.values import CommitId


def raise_format(
    services: BranchServices, recover: Recover, formats: FormatChain, *, actor: str | None, message: str | None
) -> tuple[LoadedManifest, Commit | None]:
    """Bring a branch to the newest format; return its newest version, and the commit if one was needed.

    Args:
        services: what acts on the branch.
        recover: ends the claim of a version if its holder is gone.
        formats: the formats served.
        actor: on whose behalf.
        message: what the commit says.

    Raises:
        ClaimBusyError: writers kept the branch busy for too long; it has the format that it had.
        BranchMissingError: the branch was deleted.
    """
    # One commit, however often it is tried: an attempt that storage told nothing about may have published it.
    commit_id = CommitId(services.runtime.ids.ulid())
    planned: list[Commit] = []

    def make(base: LoadedManifest) -> PublishPlan | None:
        if not formats.is_outdated(base.format):
            return None
        commit = _commit(services, base, commit_id, actor, message or f"storage format {formats.newest}")
        planned.append(commit)
        return PublishPlan.upon(
            base.state,
            services.runtime,
            services.writer,
            kind=WriteKind.UPGRADE,
            actor=actor,
            change=ManifestChange(commits=(commit,), format=formats.newest),
        )

    done = publish_alone(services, recover, make)
    found = services.manifest.find_commit(done, commit_id) if planned else None
    return done, found


def _commit(
    services: BranchServices, base: LoadedManifest, commit_id: CommitId, actor: str | None, message: str
) -> Commit:
    state, now_ms = base.state, services.runtime.clock.now_ms()
    return Commit(
        id=commit_id,
        parent=state.head.commit,
        actor=actor,
        created_at_ms=commit_id.timestamp_ms,
        manifest_version=state.version + 1,
        operation=WriteKind.UPGRADE.value,
        branch=state.head.branch,
        merged_parent=None,
        message=message,
        published_at_ms=state.next_moment(now_ms),
        touched=(),
    )
