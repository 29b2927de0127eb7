"""Taking over the changes of a feed: one commit for each call, and each change once.

How far a feed was taken over is part of the commit that has its rows, and of the state behind it. What is there already
is left out, and what would leave a gap is refused, on the very state that the commit is published on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.constraints import check_change
from omnigraph.engine.load.change import choose
from omnigraph.engine.load.load_files import expect_schema
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.rows import ChunkDecoder
from omnigraph.engine.view import GraphView
from omnigraph.errors import (
    BadValue,
    BatchRepeatedError,
    FeedBreak,
    FeedBreakError,
    FeedMisfit,
    FeedSchemaError,
    RepeatedBatch,
    UsageError,
)
from omnigraph.history.diff.schemas import SchemaStep
from omnigraph.history.feed.batch import FeedPlace, ReceivedBatch, ReceivedChange, joined
from omnigraph.history.feed.tokens import FeedCursor, FeedPage, FeedScope, decode_token
from omnigraph.records import record
from omnigraph.runtime import Cost, counting
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.manifest.rows import Commit, FeedMark
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.transaction import CommitView, WriteTxn
from omnigraph.values import CommitId
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_LINES = 20_000


@record
class ApplyResult(Printable):
    """What applying changes of a feed did.

    Every change that was handed over is one of four: ``written`` as a row, ``deleted``, ``superseded`` by a later
    change of the same entity in the same call, or ``repeated``, because the graph had it already. Edges that went
    because their node was deleted are ``cascaded``.

    Args:
        source: the feed.
        token: how far the feed is applied.
        changes: how many changes were handed over.
        commit: the commit that was made; None if the graph had all of them already.
    """

    source: str
    token: str
    changes: int = 0
    written: int = 0
    deleted: int = 0
    superseded: int = 0
    repeated: int = 0
    cascaded: int = 0
    commits: int = 0
    commit: Commit | None = None
    cost: Cost | None = None

    def __add__(self, later: ApplyResult) -> ApplyResult:
        """Return what this and a later call on the same graph did together."""
        names = ("changes", "written", "deleted", "superseded", "repeated", "cascaded", "commits")
        return ApplyResult(
            source=later.source,
            token=later.token,
            commit=later.commit or self.commit,
            cost=later.cost,
            **{name: getattr(self, name) + getattr(later, name) for name in names},
        )

    def lines(self) -> Iterator[str]:
        """Yield what became of the changes."""
        yield (
            f"{counted(self.changes, 'change')} in {counted(self.commits, 'commit')}: {self.written} written,"
            f" {self.deleted} deleted, {self.superseded} superseded, {self.repeated} already applied"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "source": self.source,
            "token": self.token,
            "changes": self.changes,
            "written": self.written,
            "deleted": self.deleted,
            "superseded": self.superseded,
            "repeated": self.repeated,
            "cascaded": self.cascaded,
            "commits": self.commits,
            "commit": None if self.commit is None else self.commit.to_brief_json(),
        }


@record
class AppliedFeed(Printable):
    """How far a feed of another graph was applied."""

    source: str
    token: str

    def lines(self) -> Iterator[str]:
        """Yield the feed and where it goes on."""
        yield f"{self.source}  {self.token}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"source": self.source, "token": self.token}


def apply_batches(
    branch_writer: BranchWriter,
    catalog: Catalog,
    documents: Sequence[Mapping[str, Any]],
    *,
    actor: str | None = None,
    message: str | None = None,
    expected_head: CommitId | None = None,
    schema_hash: str | None = None,
) -> ApplyResult:
    """Write batches of one feed that follow each other as one commit, leaving out what the branch has already.

    Args:
        branch_writer: the branch to write to.
        catalog: its schema.
        documents: the batches in their JSON form.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
        schema_hash: the hash of the accepted schema that ``catalog`` is.

    Raises:
        UsageError: these are no batches, do not follow each other, or come from this very branch.
        ChangeCursorError: their token is damaged.
        FeedBreakError: they begin behind what the branch has of the feed.
        FeedSchemaError: the schema of the branch cannot take the rows.
        ConstraintViolationError: the graph would break a rule of its schema.
        PreconditionFailedError, SchemaMovedError, ClaimBusyError, WriteOutcomeError: as for any commit.
    """
    batch = joined(map(ReceivedBatch.of, documents))
    txn = branch_writer.begin(WriteKind.APPLY_CHANGES, actor=actor, message=message, expected_head=expected_head)
    expect_schema(txn, schema_hash)
    run = _Run(batch=batch, catalog=catalog)
    try:
        run.decide(txn)
        txn.decide = run.decide
        done = branch_writer.commit(txn)
    except BatchRepeatedError:
        stored = branch_writer.snapshot().state.feeds.get(batch.source)
        token = batch.token if stored is None else stored.token
        return ApplyResult(source=batch.source, token=token, changes=batch.count, repeated=batch.count)
    return ApplyResult(
        source=batch.source,
        token=batch.token,
        changes=batch.count,
        repeated=batch.count - run.taken,
        superseded=run.taken - run.counts["written"] - run.counts["deleted"],
        written=run.counts["written"],
        deleted=run.counts["deleted"],
        cascaded=run.counts["cascaded"],
        commits=0 if done.commit is None else 1,
        commit=done.commit,
        cost=done.cost,
    )


@record(frozen=False)
class _Run:
    """A batch on the state of a transaction; the figures are those of the last attempt."""

    batch: ReceivedBatch
    catalog: Catalog
    taken: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def decide(self, txn: WriteTxn) -> None:
        batch = self.batch
        _refuse_own(batch.token, txn)
        stored = txn.snapshot.state.feeds.get(batch.source)
        known = batch.begin if stored is None else FeedPlace(sequence=stored.sequence, part=stored.part)
        if stored is not None and batch.end.order <= known.order:
            details = RepeatedBatch(app=batch.source, number=batch.end.sequence, last=stored.sequence)
            raise BatchRepeatedError("the branch already has these changes of the feed", details=details)
        if stored is not None and batch.begin.order > known.order:
            raise FeedBreakError(
                f"the batch starts after commit {batch.begin.sequence} of its feed, but the "
                f"branch has applied {known.sequence}: the changes between them would be lost",
                details=FeedBreak(source=batch.source, token=stored.token),
            )
        changes = list(batch.behind(known))
        self.taken = len(changes)
        gone: set[str] = set()
        for commit_id, step in batch.schema_steps(known):
            _Writing(catalog=self.catalog, commit_id=commit_id).expect_step(step)
            gone.update(step.gone)
        writing = _Writing(
            catalog=self.catalog, commit_id=batch.commits[-1] if batch.commits else "", dropped=frozenset(gone)
        )
        self.counts = writing.write(txn, changes)
        mark = FeedMark(source=batch.source, sequence=batch.end.sequence, part=batch.end.part, token=batch.token)
        txn.mark_feed(mark)


def _refuse_own(text: str, txn: WriteTxn) -> None:
    """Refuse what a branch tells of itself: applying it would be another change to tell."""
    token, head = decode_token(text), txn.snapshot.state.head
    own = FeedScope.of(txn.snapshot.state.graph_id, str(head.branch), head.incarnation, "")
    if isinstance(token, FeedPage | FeedCursor) and (token.graph, token.branch) == (own.graph, own.branch):
        details = BadValue(what="branch", value=str(head.branch), expected="another graph or branch")
        raise UsageError("a feed cannot be applied to the branch that it comes from", details=details)


@record
class _Writing:
    """Puts the net effect of changes into a transaction.

    Args:
        catalog: the schema of the branch.
        commit_id: the commit of the source whose schema the rows have.
        dropped: the types that the source has dropped among these changes: their rows went with the type here, too.
    """

    catalog: Catalog
    commit_id: str
    dropped: frozenset[str] = frozenset()

    def expect_step(self, step: SchemaStep) -> None:
        """See that the branch has followed the source to another schema.

        What the source has dropped must be gone here before rows go on: it may declare another property of that name.

        Raises:
            FeedSchemaError: it has not.
        """
        owners: list[NodeType | EdgeType] = [*self.catalog.nodes.values(), *self.catalog.edges.values()]
        known = {owner.table_key: {prop.name for prop in owner.properties} for owner in owners}
        for key, names in step.types.items():
            if key not in known:
                raise self._misfit(f"the schema has no type '{key}'")
            missing = [name for name in names if name not in known[key]]
            if missing:
                raise self._misfit(f"the schema has no property '{missing[0]}' of '{key}'")
        for item in step.gone:
            key, _, name = item.partition(".")
            if key in known and (not name or name in known[key]):
                raise self._misfit(f"the schema still has '{item}', which the source has dropped or renamed")

    def write(self, txn: WriteTxn, changes: Sequence[ReceivedChange]) -> Counter[str]:
        """Write what each entity is in the end, and return how many rows were written and deleted."""
        last = {(change.kind, change.type_name, change.id): change for change in changes}
        rows: dict[tuple[str, str], list[ReceivedChange]] = {}
        for change in last.values():
            rows.setdefault((change.kind, change.type_name), []).append(change)
        counts: Counter[str] = Counter()
        staging = MutationStaging(txn, self.catalog)
        with counting(txn.counters), txn.snapshot.reading():
            gone: list[tuple[NodeType, pa.Array]] = []
            for (kind, name), some in rows.items():
                if f"{kind}:{name}" in self.dropped and all(change.after is None for change in some):
                    counts["deleted"] += len(some)
                    continue
                owner = self._owner(kind, name)
                kept = [change.after for change in some if change.after is not None]
                removed = [change.id for change in some if change.after is None]
                if kept:
                    staging.pending(owner).insert_rows(self._rows(owner, kept, staging), is_made=False)
                    counts["written"] += len(kept)
                if removed:
                    ids = one_array(staging.rows_with_ids(owner, pa.array(removed, pa.string()), ()).column(KEY))
                    staging.pending(owner).remove(ids.to_pylist())
                    counts["deleted"] += len(removed)
                    if isinstance(owner, NodeType):
                        # Those that only these changes made and removed, too: their edges may be among the rows.
                        gone.append((owner, pa.array(removed, pa.string())))
            for owner, ids in gone:
                counts["cascaded"] += self._cascade(staging, owner, ids)
            net = staging.net_change()

        def check(view: CommitView) -> None:
            check_change(net, GraphView.of_commit(view, self.catalog))

        if not net.is_empty:
            txn.add_check(check)
        return counts

    def _cascade(self, staging: MutationStaging, node: NodeType, ids: pa.Array) -> int:
        """Remove the edges of deleted nodes; a feed tells of them too, perhaps only in a later batch."""
        count = 0
        for edge in self.catalog.edges.values():
            if node.name in {edge.from_type, edge.to_type}:
                found = staging.find_edges(edge, node, ids)
                if found:
                    staging.pending(edge).remove(found)
                    count += len(found)
        return count

    def _owner(self, kind: str, name: str) -> NodeType | EdgeType:
        owners: Mapping[str, NodeType | EdgeType] = self.catalog.nodes if kind == "node" else self.catalog.edges
        owner = owners.get(name)
        if owner is None:
            raise self._misfit(f"the schema has no {kind} type '{name}'")
        return owner

    def _rows(
        self, owner: NodeType | EdgeType, kept: Sequence[Mapping[str, Any]], staging: MutationStaging
    ) -> pa.Table:
        """Return the rows of changes; properties that the feed does not know keep what the graph has."""
        parts = []
        decoder = ChunkDecoder(self.catalog)
        for start in range(0, len(kept), _LINES):
            lines = b"".join(msgspec.json.encode(row) + b"\n" for row in kept[start : start + _LINES])
            found = decoder.decode(lines, 1)
            if found.problems:
                raise self._misfit(found.problems[0].message)
            parts.append(found.types[owner.table_key].rows)
        rows = pa.concat_tables(parts)
        given = kept[0]["data"]
        own = [prop.name for prop in owner.properties if prop.name not in given]
        if own:
            ids = one_array(rows.column(KEY))
            stored = staging.rows_with_ids(owner, ids, own)
            places = one_array(pc.index_in(ids, value_set=one_array(stored.column(KEY))))
            for name in own:
                field_ = rows.schema.field(name)
                before = one_array(stored.column(name)).cast(field_.type).take(places)
                column = choose(places.is_null(), one_array(rows.column(name)), before)
                rows = rows.set_column(rows.schema.get_field_index(name), field_, column)
        return rows.cast(arrow_schema(owner))

    def _misfit(self, problem: str) -> FeedSchemaError:
        at = f" --snapshot {self.commit_id}" if self.commit_id else ""
        return FeedSchemaError(
            f"the graph cannot take the rows of the feed: {problem}",
            details=FeedMisfit(commit_id=self.commit_id, problem=problem),
            hint=f"apply the schema that the source has there: 'omnigraph schema show SOURCE{at} > source.pg', then"
            " 'omnigraph schema apply TARGET --schema source.pg', and apply the feed again",
        )
