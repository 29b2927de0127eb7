"""``Graph``: an open graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, get_args

from omnigraph.client import ClientSettings, is_server_address
from omnigraph.engine.embedding import EmbeddingProvider, EmbeddingSettings, check_embedding
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.graph.arguments.values import duration_s, schema_text
from omnigraph.graph.branch import Branch, BranchVerbs
from omnigraph.graph.opening import check_server_arguments, create_local, open_local, refuse_given
from omnigraph.graph.state import State, reference_of
from omnigraph.graph.waiting import computed, manner
from omnigraph.operations.history import (
    CreateBranchRequest,
    DeleteBranchRequest,
    DeleteTagRequest,
    ListBranchesRequest,
    ListTagsRequest,
)
from omnigraph.operations.maintenance import CleanupRequest, MigrateRequest
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.operations.request import Backend
from omnigraph.policy import Actor
from omnigraph.txn.graph_store import OpenMode
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName, check_choice, check_flag, check_instance

if TYPE_CHECKING:
    from omnigraph.engine.external_blobs import ExternalBlobs
    from omnigraph.engine.maintenance.cleanup import CleanupResult
    from omnigraph.engine.maintenance.migrate import MigrateResult
    from omnigraph.graph.proposals import Proposals
    from omnigraph.operations.query_files import QueryFiles
    from omnigraph.policy.policy import Policy
    from omnigraph.txn.branches.status import BranchStatus
    from omnigraph.txn.branches.tags import Tag
    from omnigraph.values.damage import DamagedRecord


class Graph(BranchVerbs):
    """An open graph: its branch ``main``, and the way to everything else. Threads may share it.

    :func:`omnigraph.init` and :func:`omnigraph.open` make one. Close it, or use it in a ``with`` block.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend, MAIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Graph {self._backend.uri!r}, {self._backend.mode}>"

    @property
    def uri(self) -> str:
        """Where it lives."""
        return self._backend.uri

    @property
    def mode(self) -> OpenMode:
        """Whether it may be written to."""
        return self._backend.mode

    @property
    def backend(self) -> Backend:
        """What executes every request."""
        return self._backend

    def close(self) -> None:
        """Finish background work and let go of everything; harmless when closed already."""
        self._backend.close()

    def branch(self, name: str) -> Branch:
        """Return a branch that exists.

        Raises:
            BranchMissingError: there is none of that name.
        """
        branch = str(BranchName.parse(name))
        self._backend.execute(ReadStateRequest(branch=branch))
        return Branch(self._backend, branch)

    def branches(self) -> tuple[BranchStatus | DamagedRecord, ...]:
        """Return the live branches and how each stands to the one it came from, main first, then by name.

        One whose ref cannot be understood is shown as damaged.
        """
        return self._backend.execute(ListBranchesRequest())

    def create_branch(
        self, name: str, at: str | datetime | Commit | State | None = None, *, actor: str | None = None
    ) -> Branch:
        """Create a branch at the newest state of main, or at what ``at`` names; nothing is copied.

        Raises:
            BranchExistsError: the name, or one that overlaps with it, is taken.
            BranchMissingError, TagMissingError, CommitMissingError, HistoryGoneError: there is no such state.
            BranchClosingError: the branch it starts from is about to be deleted.
        """
        state = None if at is None else reference_of(at)
        made = self._backend.execute(CreateBranchRequest(name=name, at=state, actor=actor))
        return Branch(self._backend, str(made.name))

    def delete_branch(self, name: str, *, actor: str | None = None) -> None:
        """Delete a branch and its own commits for good; harmless when that was done before.

        Raises:
            UsageError: it is main.
            BranchMissingError: there never was such a branch.
            BranchInUseError: a branch or a tag depends on it.
        """
        self._backend.execute(DeleteBranchRequest(name=name, actor=actor))

    def tags(self) -> tuple[Tag | DamagedRecord, ...]:
        """Return every tag, by name; one that cannot be understood is shown as damaged."""
        return self._backend.execute(ListTagsRequest())

    def delete_tag(self, name: str) -> Tag:
        """Remove a tag and return it.

        Raises:
            TagMissingError: there is none of that name.
        """
        return self._backend.execute(DeleteTagRequest(name=name))

    @property
    def proposals(self) -> Proposals:
        """The proposals: requests to merge one branch into another."""
        from omnigraph.graph.proposals import Proposals  # noqa: PLC0415 - a read needs none of it

        return Proposals(self._backend)

    def cleanup(
        self, *, keep: int | None = None, older_than: float | timedelta | None = None, dry_run: bool = True
    ) -> CleanupResult:
        """Give back the storage of old states, on every branch; unless ``dry_run`` is False only say what would go.

        Args:
            keep: how many of the newest states of each branch stay.
            older_than: how long a state stays after it was current, in seconds or as a timedelta.
            dry_run: say False to do it; states that go can never be read again.

        Raises:
            UsageError: neither ``keep`` nor ``older_than`` is given.
            TableDriftError: a table was changed by something else, and has to be repaired first.
            ClaimBusyError: writers kept a branch busy for too long; nothing was removed.
            ReadOnlyError: the graph is open for reading only.
        """
        check_flag("dry_run", dry_run)
        request = CleanupRequest(keep=keep, older_than_s=duration_s(older_than), confirm=not dry_run)
        return self._backend.execute(request)

    def migrate(self, *, preview: bool = False, actor: str | None = None, message: str | None = None) -> MigrateResult:
        """Raise the storage format of every branch to the newest that this version of omnigraph has.

        Nothing else raises it: until then, older versions of omnigraph can read and write the graph; afterwards they
        refuse it. No row, commit, branch or tag changes, and others may go on writing. After an interruption, call it
        again.

        Args:
            preview: only say what would change.
            actor: who asks for it.
            message: what its commits say.

        Raises:
            ClaimBusyError: writers kept a branch busy for too long; call it again for what is left.
            ReadOnlyError: the graph is open for reading only.
        """
        return self._backend.execute(MigrateRequest(preview=preview, actor=actor, message=message))


def init(
    uri: str | Path,
    schema: str | bytes | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    message: str | None = None,
    settings: TxnSettings | None = None,
    group_commit: bool = True,
    embedding: EmbeddingSettings | EmbeddingProvider | None = None,
    maintenance: MaintenanceSettings | None = None,
    external_blobs: ExternalBlobs | Sequence[str | Path] | None = None,
) -> Graph:
    """Create a graph with an empty table per type of a schema, and open it.

    Args:
        uri: where it will live: a path, ``file://`` or ``s3://bucket/prefix``.
        schema: the text, or the path of a ``.pg`` file.
        storage_options: how to reach the storage; kept in memory and never shown.
        actor: who asks for it.
        message: what its first commit says.
        settings: how durable writes are and how long they wait for others.
        group_commit: publish writes of several threads together; False: each as a version of its own.
        embedding: what embeds texts; the environment tells when None.
        maintenance: how much is tidied up in the background; the environment tells when None.
        external_blobs: the bases of objects outside of the graph that Blobs may be given as; none when None.

    Raises:
        SchemaSyntaxError, SchemaCheckError: the text is no schema, or contradicts itself.
        FileMissingError, FileAccessError: the file of the schema is not there, or cannot be read.
        GraphExistsError: there is a graph already.
        ValueFormatError: a graph cannot live there.
    """
    _check_settings(settings, maintenance, embedding, group_commit=group_commit)
    allowed = _allowed_blobs(external_blobs)
    source = schema_text(schema)
    computed(partial(create_local, uri, source, storage_options, actor=actor, message=message, settings=settings))
    return open(
        uri,
        storage_options=storage_options,
        settings=settings,
        group_commit=group_commit,
        embedding=embedding,
        maintenance=maintenance,
        external_blobs=allowed,
    )


def open(  # noqa: A001, PLR0913 - what every library of files calls it; keyword-only, one for each thing to be told
    uri: str | Path,
    *,
    mode: OpenMode = "read_write",
    token: str | None = None,
    client: ClientSettings | None = None,
    storage_options: Mapping[str, str] | None = None,
    settings: TxnSettings | None = None,
    group_commit: bool = True,
    embedding: EmbeddingSettings | EmbeddingProvider | None = None,
    maintenance: MaintenanceSettings | None = None,
    external_blobs: ExternalBlobs | Sequence[str | Path] | None = None,
    queries: QueryFiles | None = None,
    policy: str | Path | Policy | None = None,
    actor: str | Actor | None = None,
) -> Graph:
    """Open a graph. Opening for writing first ends the publishes of writers that are gone.

    A graph of a server, ``https://host/graphs/crm``, takes ``mode``, ``token`` and ``client``; one that this process
    opens itself takes the others.

    Args:
        uri: where it lives: a path, ``file://``, ``s3://bucket/prefix``, or the address of a served graph.
        mode: ``read_write``, or ``read_only``, which refuses every write.
        token: who asks a server; it is never shown.
        client: how to wait for a server.
        storage_options: how to reach the storage; kept in memory and never shown.
        settings: how durable writes are and how long they wait for others.
        group_commit: publish writes of several threads together; False: each as a version of its own.
        embedding: what embeds texts; the environment tells when None.
        maintenance: how much is tidied up in the background; the environment tells when None.
        external_blobs: the bases of objects outside of the graph that Blobs may be given as; none when None.
        queries: the stored queries: a ``.gq`` file, a folder with some, several of these, or a mapping from names to
            ``{"file": path}``. A server has its own.
        policy: a bundle, as a file or compiled, that decides about every call; without an actor it denies all of them.
        actor: who makes the calls, recorded on every write; no other may be named then.

    Raises:
        GraphMissingError: there is no graph.
        PolicyFormatError, FileMissingError, FileAccessError: the policy is not a valid bundle, or cannot be read.
        QuerySyntaxError, StoredQueryDuplicateError, QueryNotFoundError: the stored queries cannot be read, two of them
            have one name, or a file lacks one; whether they fit the schema is told by ``graph.queries.validate()``.
        FormatUnsupportedError: its storage format is outside the range of this version.
        ForkedProcessError: this process was forked from one that had a graph open.
        UsageError: there is no such mode, or an argument is for graphs of the other kind.
        ValueFormatError: a graph cannot live there.
        ServerUnreachableError, ServerIncompatibleError: the server cannot be reached, or is not one of this version.
        LibraryMissingError: asking a server needs httpx2, which is not installed.
    """
    check_choice("mode", mode, get_args(OpenMode))
    _check_settings(settings, maintenance, embedding, group_commit=group_commit)
    local: dict[str, object] = {"storage_options": storage_options, "settings": settings, "embedding": embedding}
    local |= {
        "group_commit": None if group_commit else False,
        "maintenance": maintenance,
        "policy": policy,
        "actor": actor,
    }
    local |= {"external_blobs": external_blobs, "queries": queries}
    if is_server_address(uri):
        refuse_given(local, "a graph that this process opens itself")
        check_server_arguments(token, client)
        return Graph(manner.get().connect(str(uri), token=token, mode=mode, settings=client))
    refuse_given({"token": token, "client": client}, "a graph of a server")
    opened = partial(
        open_local,
        uri,
        storage_options,
        mode=mode,
        settings=settings,
        group_commit=group_commit,
        embedding=embedding,
        maintenance=maintenance,
        external_blobs=_allowed_blobs(external_blobs),
        queries=queries,
        policy=policy,
        actor=actor,
    )
    return Graph(manner.get().open_local(opened))


def _check_settings(
    settings: TxnSettings | None, maintenance: MaintenanceSettings | None, embedding: object, *, group_commit: bool
) -> None:
    check_instance("settings", settings, TxnSettings)
    check_instance("maintenance", maintenance, MaintenanceSettings)
    check_embedding(embedding)
    check_flag("group_commit", group_commit)


def _allowed_blobs(given: ExternalBlobs | Sequence[str | Path] | None) -> ExternalBlobs | None:
    if given is None:
        return None
    from omnigraph.engine.external_blobs import ExternalBlobs  # noqa: PLC0415 - few graphs allow any

    return ExternalBlobs.of(given)
