"""The manifest dataset of one branch: probing, loading, staging the next version, and the compare-and-swap.

Fragments stand in a fixed order: state, schema, then lineage from oldest to newest. A publish writes the state
fragment (and rarely one more), re-lists the others and commits a strict overwrite: one winner per version.

A writer syncs a version before it acknowledges it, and its claim stays until then. So a torn version whose claim is
there, and which no writer has noted as acknowledged, is one that nobody was told of: it is stepped over, and whoever
resolves the claim puts it aside and publishes its number anew. Without that proof it is damage, which is told and
never decided about here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import pyarrow as pa

from omnigraph.errors import (
    GraphReplacedError,
    MissingThing,
    OmnigraphError,
    StorageCorruptError,
    StorageFault,
    TableMissingError,
)
from omnigraph.records import record
from omnigraph.store.datasets import DatasetStore, ReplaceableDataset
from omnigraph.store.tables.pins import FragmentRef, TablePin
from omnigraph.store.versions import VersionFiles, version_file
from omnigraph.txn.branches.incarnation import MAIN_LIFE, BranchIncarnation, BranchLife, branch_missing
from omnigraph.txn.manifest.codec import (
    FormatChain,
    decode_schema,
    decode_state,
    encode_commits,
    encode_schema,
    encode_state,
    manifest_schema,
)
from omnigraph.txn.manifest.lineage import CommitCache, CommitLine, Flush, Merge, plan_fold
from omnigraph.txn.manifest.rows import Commit, ManifestChange, ManifestState, apply_change
from omnigraph.values import CommitId

_log = logging.getLogger(__name__)

IsAcknowledged = Callable[[int], bool]


class TornVersions:
    """The manifest versions of one line that are not as they should be.

    Args:
        files: the version files of the graph.
        location: where manifests are.
        line: the line.
        is_acknowledged: whether a version may have been acknowledged; False is proof that it was not.
    """

    def __init__(
        self, files: VersionFiles, location: str, line: BranchIncarnation, is_acknowledged: IsAcknowledged
    ) -> None:
        self._files = files
        self._location = location
        self._line = line
        self._is_acknowledged = is_acknowledged
        # What was read or written by this process is whole, so that steady state looks at nothing.
        self._whole = 0
        self._told = 0

    def knows_whole(self, version: int) -> None:
        """Remember that a version could be read."""
        self._whole = max(self._whole, version)

    def newest_after(self, error: OmnigraphError) -> int:
        """Return the newest version by its file's name, when opening it ended with ``error``.

        Raises:
            OmnigraphError: that error, when there is nothing that could be stepped over.
        """
        newest = self._files.newest(self._location, self._line.lance_branch)
        if newest is None or not self._files.is_torn(self._pin(newest)):
            raise error
        return newest

    def step_over(self, latest: int) -> int:
        """Return the newest version that counts: ``latest``, or the one before when that is torn and unacknowledged.

        Raises:
            StorageCorruptError: it is torn and may have been acknowledged.
        """
        if latest <= self._whole:
            return latest
        pin = self._pin(latest)
        if not self._files.is_torn(pin):
            return latest
        if self._is_acknowledged(latest):
            raise self._damaged(pin, "the newest version of a branch is torn")
        if self._told < latest:
            self._told = latest
            _log.warning(
                "skipping a torn, never acknowledged version: branch=%s version=%s",
                self._line.name,
                latest,
            )
        return latest - 1

    def put_aside(self, version: int) -> None:
        """Move a version away if it is torn and was never acknowledged; the caller holds its claim.

        Raises:
            StorageCorruptError: it is torn and may have been acknowledged.
        """
        pin = self._pin(version)
        if version <= self._whole or not self._files.is_torn(pin):
            return
        if self._is_acknowledged(version):
            raise self._damaged(pin, "the newest version of a branch is torn")
        aside = self._files.put_aside(pin)
        _log.warning(
            "moved a torn, never acknowledged version aside: branch=%s version=%s kept=%s",
            self._line.name,
            version,
            aside,
        )

    def refuse_loss(self, newest: int) -> None:
        """Refuse to take ``newest`` for the newest version when Lance has noted a later one that is gone.

        Raises:
            StorageCorruptError: a version is missing that may have been acknowledged.
        """
        hinted = self._files.hinted(self._location, self._line.lance_branch) or 0
        if hinted <= newest or self._files.exists(self._pin(hinted)):
            return
        if hinted == newest + 1 and not self._is_acknowledged(hinted):
            return
        raise self._damaged(self._pin(hinted), "the newest version of a branch is missing")

    def gone_back(self, version: int) -> StorageCorruptError:
        """Return the error for a version that this process has seen and that is gone."""
        return self._damaged(self._pin(version), "a version of a branch is missing")

    def _pin(self, version: int) -> TablePin:
        return TablePin(location=self._location, branch=self._line.lance_branch, version=version)

    def _damaged(self, pin: TablePin, what: str) -> StorageCorruptError:
        details = StorageFault(
            doing="read the manifest",
            location=version_file(pin),
            reason="it may have been acknowledged, so going back could lose a write",
        )
        return StorageCorruptError(
            f"{what}: branch '{self._line.name}', version {pin.version}, object '{version_file(pin)}'", details=details
        )


LOCATION = "__manifest"
_STATE, _SCHEMA, _LINEAGE = 0, 1, 2


@record
class LoadedManifest:
    """A manifest version held in memory: the dataset handle, what it says, and of which branch."""

    dataset: ReplaceableDataset
    state: ManifestState
    life: BranchLife
    identity: tuple[int, int, int] | None = field(default=None, compare=False)

    @property
    def format(self) -> int:
        """The storage format that it is stamped with."""
        return self.state.format

    @property
    def lineage(self) -> tuple[FragmentRef, ...]:
        """The lineage fragments, oldest first."""
        return self.dataset.fragments[_LINEAGE:]


@record
class StagedManifest:
    """The next version, uploaded but invisible."""

    state: ManifestState
    fragments: tuple[FragmentRef, ...]


class ManifestFile:
    """The manifest of one branch."""

    def __init__(
        self,
        datasets: DatasetStore,
        life: BranchLife,
        formats: FormatChain,
        commits: CommitCache | None = None,
        *,
        is_acknowledged: IsAcknowledged | None = None,
    ) -> None:
        self._datasets = datasets
        self._formats = formats
        self._commits = commits or CommitCache()
        self._life = life
        self.line = life.line
        self._graph_id: str | None = None
        self._torn = TornVersions(datasets.versions, LOCATION, self.line, is_acknowledged or (lambda *_: True))

    def latest_version(self) -> int:
        """Return the newest version that exists: the one call by which a cached manifest is known to be current.

        Raises:
            BranchMissingError: the branch was deleted.
            StorageCorruptError: it cannot be read, and may have been acknowledged.
        """
        with self._life.reading():
            try:
                latest = self._datasets.latest_version(LOCATION, self.line.lance_branch)
            except TableMissingError:
                raise
            except OmnigraphError as error:
                latest = self._torn.newest_after(error)
            return self._torn.step_over(latest)

    def put_torn_aside(self, version: int) -> None:
        """Move a version away that was never acknowledged and is torn; the caller holds its claim."""
        self._torn.put_aside(version)

    def load_latest(self, known: LoadedManifest | None = None) -> LoadedManifest:
        """Return the newest version, reading nothing but the probe when ``known`` still is it.

        Raises:
            BranchMissingError: the branch was deleted.
        """
        if known is None:
            with self._life.reading():
                return self._load(self._open_latest(), None)
        latest = self.latest_version()
        if latest < known.state.version:
            # A line never goes back. What is left of it is being removed, in no particular order.
            self._refuse_another_graph(known)
            if self.line.lance_branch is None:
                raise self._torn.gone_back(known.state.version)
            raise branch_missing(self.line.name)
        if latest == known.state.version:
            self.check_same(known)
            return known
        return self.load_version(latest, known)

    def load_version(self, version: int, known: LoadedManifest | None = None) -> LoadedManifest:
        """Return one version; ``known`` spares reading the schema again when it did not change.

        Raises:
            BranchMissingError: the branch was deleted.
            VersionMissingError: the version was reclaimed, or never existed.
        """
        with self._life.reading():
            dataset = self._datasets.open_version(LOCATION, self.line.lance_branch, version)
            return self._load(dataset, known)

    def is_outdated(self, loaded: LoadedManifest) -> bool:
        """Whether a version has an older format than a migration would give it."""
        return self._formats.is_outdated(loaded.format)

    def stage(self, base: LoadedManifest, change: ManifestChange) -> StagedManifest:
        """Upload what the next version consists of. Until :meth:`publish` nobody can see it.

        Raises:
            FormatUnsupportedError: the change is a migration to a format that this version does not know.
        """
        state = apply_change(base.state, change)
        self._formats.check(state.format)
        lineage = list(base.lineage)
        # A cleanup brings no commit. Folding upon it would leave a state that does not know when its head was made.
        fold = (
            plan_fold(len(base.state.recent), [fragment.row_count for fragment in lineage]) if change.commits else None
        )
        if isinstance(fold, Flush):
            lineage.append(self._stage_rows(base, encode_commits(base.state.recent)))
            state = replace(state, recent=change.commits)
        elif isinstance(fold, Merge):
            chosen = range(_LINEAGE + fold.start, _LINEAGE + fold.stop)
            rows = self._datasets.read(base.dataset, chosen, None)
            lineage[fold.start : fold.stop] = [self._stage_rows(base, rows)]
        schema = base.dataset.fragments[_SCHEMA]
        if change.schema is not None or state.format != base.format:
            # Behind a migration no row of an older state may stay in the way.
            schema = self._stage_rows(base, encode_schema(state.schema))
        return StagedManifest(
            state=state,
            fragments=(self._stage_rows(base, encode_state(state)), schema, *lineage),
        )

    def publish(
        self, base: LoadedManifest, staged: StagedManifest, *, uuid: str, properties: Mapping[str, str]
    ) -> LoadedManifest:
        """Make the staged version visible, or fail because another one is.

        Raises:
            CompareAndSwapLostError: the branch has moved past ``base``; nothing happened.
            GraphReplacedError: another graph was made in place of this one; nothing happened.
            OutcomeUnknownError: storage did not say whether it happened.
        """
        self.check_same(base)
        dataset = self._datasets.replace(
            base.dataset, staged.fragments, manifest_schema(staged.state.format), properties, uuid
        )
        self._torn.knows_whole(dataset.version)
        return LoadedManifest(
            dataset=dataset,
            state=staged.state,
            life=self._life,
            identity=self._datasets.versions.identity(dataset.pin),
        )

    def commit_line(self, loaded: LoadedManifest) -> CommitLine:
        """Return the history that a version ends, to be read in pieces."""
        return CommitLine(self._datasets, loaded, self._commits)

    def iter_commits(self, loaded: LoadedManifest) -> Iterator[Commit]:
        """Yield history newest first, reading older fragments only as far as the caller goes."""
        return (commit for _, commit in self.commit_line(loaded).back())

    def find_commit(self, loaded: LoadedManifest, commit_id: CommitId) -> Commit | None:
        """Return a commit of this branch's history, or None."""
        line = self.commit_line(loaded)
        position = line.position_of(commit_id)
        return None if position is None else line.at(position)

    def find_published(self, loaded: LoadedManifest, commit_id: CommitId, version: int) -> Commit | None:
        """Return a commit if a version of the manifest has brought it.

        A write keeps its commit id when it is tried again: that history has the commit does not say that one attempt
        of several was published.
        """
        found = self.find_commit(loaded, commit_id)
        return found if found is not None and found.manifest_version == version else None

    def has_published(self, loaded: LoadedManifest, commits: Sequence[Commit], version: int) -> bool:
        """Whether one version of the manifest has brought all of these commits.

        One of them may have been brought by another writer under the same number, when it was offered to several.
        """
        return all(self.find_published(loaded, commit.id, version) is not None for commit in commits)

    def check_same(self, known: LoadedManifest) -> None:
        """Refuse to go on with a version when another graph was made in the place of its own; costs no call.

        On an object store nothing tells without a call; there it is noticed when a newer version is read.

        Raises:
            GraphReplacedError: it is another graph.
        """
        if known.identity is None or self._datasets.versions.identity(known.dataset.pin) == known.identity:
            return
        self._refuse_another_graph(known)

    def _refuse_another_graph(self, known: LoadedManifest) -> None:
        """Read what the place holds by now, without anything that is in memory."""
        fresh = ManifestFile(DatasetStore(self._datasets.storage, self._datasets.runtime), MAIN_LIFE, self._formats)
        if fresh.load_latest().state.graph_id != known.state.graph_id:
            raise self._replaced(known.state.graph_id)

    def _replaced(self, graph_id: str) -> GraphReplacedError:
        details = MissingThing(what="graph", name=graph_id)
        root = self._datasets.storage.root
        return GraphReplacedError(
            f"the graph at {root} was replaced by another one after it was opened", details=details
        )

    def _open_latest(self) -> ReplaceableDataset:
        try:
            dataset = self._datasets.open_latest(LOCATION, self.line.lance_branch)
        except TableMissingError:
            raise
        except OmnigraphError as error:
            newest = self._torn.newest_after(error)
            whole = self._torn.step_over(newest)
            if whole == newest:
                raise
            return self._datasets.open_version(LOCATION, self.line.lance_branch, whole)
        self._torn.refuse_loss(dataset.version)
        return dataset

    def _load(self, dataset: ReplaceableDataset, known: LoadedManifest | None) -> LoadedManifest:
        stamp = self._formats.stamp_of(dataset.schema)
        if known is not None and known.dataset.fragments[_SCHEMA].files == dataset.fragments[_SCHEMA].files:
            rows = self._formats.upgrade_rows(stamp, self._datasets.read(dataset, [_STATE], None))
            schema = known.state.schema
        else:
            rows = self._formats.upgrade_rows(stamp, self._datasets.read(dataset, [_STATE, _SCHEMA], None))
            is_schema = pa.compute.equal(rows["object_type"], "schema")
            schema = decode_schema(rows.filter(is_schema))
        state = decode_state(dataset.version, rows, schema, stamp)
        if self._graph_id is not None and state.graph_id != self._graph_id:
            raise self._replaced(self._graph_id)
        self._graph_id = state.graph_id
        if state.head.is_ended:
            # The branch was deleted; what stays of it is read through the merges that brought it elsewhere.
            raise branch_missing(self.line.name)
        if state.head.branch != self.line.name:
            # A branch that has not committed yet still shows the head it was forked at.
            head = replace(state.head, branch=self.line.name, incarnation=self.line.incarnation)
            state = replace(state, head=head)
        self._torn.knows_whole(dataset.version)
        identity = self._datasets.versions.identity(dataset.pin)
        loaded = LoadedManifest(dataset=dataset, state=state, life=self._life, identity=identity)
        if state.recent or not loaded.lineage:
            return loaded
        line = self.commit_line(loaded)
        return replace(loaded, state=replace(state, moment_ms=line.at(len(line) - 1).published_at_ms))

    def _stage_rows(self, base: LoadedManifest, rows: pa.Table) -> FragmentRef:
        return self._datasets.stage_fragment(base.dataset, rows)
