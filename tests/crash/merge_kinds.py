"""Merges and reverts, each with the branches it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omnigraph.history.merge import merge_branch, revert_commit
from omnigraph.history.proposals import get_proposal, merge_proposal, open_proposal
from omnigraph.operations.history import MergeRequest
from omnigraph.spark.history.operations import ExecutorBackend
from omnigraph.spark.history.ranges import SparkHistorySettings
from omnigraph.spark.runner import InProcessRunner
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, BranchName
from tests.crash.kinds import ACTOR, DRAFT
from tests.crash.session_kinds import MUTATION, SessionKind
from tests.merge_graph import head_of, history_of
from tests.session import Session

OTHER = "other"
UNDONE = "undone"
ON_MAIN = """
query change() {
    insert Person { name: "main" }
    update Person set { age: 8 } where name = "cem"
    insert Knows { from: "main", to: "cem" }
}
"""
ADD_TEAM, DROP_TEAM = 'insert Team { name: "green" }', 'delete Team where name = "green"'
# A wider type and another name, another type with rows of its own, one that goes, and one that is only renamed.
DRAFT_SCHEMA = """
node Person { name: String @key  age: I64?  alias: String? @rename_from("nick") }
node Group @rename_from("Team") { name: String @key  motto: String? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date?  @key(src, dst) }
"""
ON_DRAFT = """
query change() {
    insert Person { name: "dan", age: 5000000000 }
    update Person set { alias: "A" } where name = "ann"
    update Group set { motto: "slower" } where name = "red"
    insert City { name: "rome" }
}
"""
RENAME = 'update Person set { nick: "ann" } where name = "ann"'


@dataclass(frozen=True, kw_only=True)
class MergeKind(SessionKind):
    """One kind of merge or revert.

    Args:
        setup: what happens to the branches before.
        source: the branch that it merges, if it does.
        is_in_tasks: tasks do the work, as on Spark.
    """

    setup: Callable[[Session], object]
    source: str | None = DRAFT
    is_in_tasks: bool = False

    def prepare(self, root: str, options: dict[str, str] | None, inputs: Path) -> Storage:
        """Make the graph with its branches."""
        storage = super().prepare(root, options, inputs)
        with self.open(storage) as session:
            self.setup(session)
        return storage

    def assert_done(self, session: Session, inputs: Path) -> None:
        """Demand that the newest commit is the one that was asked for."""
        newest = history_of(session, self.branch)[0]
        assert newest.actor == ACTOR
        if self.source is not None:
            assert newest.merged_parent == head_of(session, self.source)
            full = session.log(branch=self.branch, limit=1000, full=True).commits
            assert newest.merged_parent in {commit.id for commit in full}
            assert merge_branch(session, self.source, self.branch).commit is None


@dataclass(frozen=True, kw_only=True)
class ProposalKind(MergeKind):
    """The merge of a proposal."""

    def assert_done(self, session: Session, inputs: Path) -> None:
        """Demand that the proposal says that it was merged, whoever could not write that down."""
        super().assert_done(session, inputs)
        newest = history_of(session, self.branch)[0]
        found = get_proposal(session, 1)
        assert (found.commit, found.ended_by, newest.proposal) == (newest.id, ACTOR, 1)


def _do(session, *texts, branch=MAIN):
    for text in texts:
        session.mutate(text if text.lstrip().startswith("query") else f"query q() {{ {text} }}", branch=branch)


def _fork(session, *names):
    for name in names:
        session.store.create_branch(BranchName(name))


def _ahead(session):
    _fork(session, DRAFT)
    _do(session, MUTATION, branch=DRAFT)


def _diverged(session):
    _ahead(session)
    _do(session, ON_MAIN)


def _proposed(session):
    _diverged(session)
    check = 'query nobody() { match { $t: Team $t.name = "none" } return { $t.name } }'
    open_proposal(session, DRAFT, title="draft", checks=[check], actor="author")


def _two_branches(session):
    _fork(session, DRAFT, OTHER)
    _do(session, ADD_TEAM, RENAME, branch=DRAFT)
    _do(session, ON_MAIN, branch=OTHER)


def _behind(session):
    _fork(session, OTHER)
    _do(session, ADD_TEAM, branch=OTHER)
    _do(session, MUTATION)


def _net_zero(session):
    _fork(session, DRAFT)
    _do(session, ADD_TEAM, DROP_TEAM, branch=DRAFT)


def _net_zero_beside_a_change(session):
    _net_zero(session)
    _do(session, RENAME, branch=DRAFT)


def _schemas_apart(session):
    _fork(session, DRAFT)
    session.apply_schema(DRAFT_SCHEMA, branch=DRAFT)
    _do(session, ON_DRAFT, branch=DRAFT)
    _do(session, ON_MAIN)


def _written_since(session):
    session.mutate(MUTATION, actor=UNDONE)
    _do(session, 'insert Person { name: "later" }')


def _merge(source=DRAFT, target=MAIN):
    def write(session, inputs):
        merge_branch(session, source, target, actor=ACTOR)

    return write


def _merge_in_tasks(session, inputs):
    # The tasks run in the driver itself, so that a death costs no start of a session.
    settings = SparkHistorySettings(memory_bytes=1, whole_rows=0)
    backend = ExecutorBackend(session.backend, settings=settings, runner=InProcessRunner())
    backend.execute(MergeRequest(source=DRAFT, actor=ACTOR))


def _merge_proposal(session, inputs):
    merge_proposal(session, 1, actor=ACTOR)


def _revert(session, inputs):
    undone = next(commit for commit in history_of(session) if commit.actor == UNDONE)
    revert_commit(session, undone.id, actor=ACTOR)


MERGE_KINDS = {
    kind.name: kind
    for kind in (
        MergeKind(name="fast_forward", tables=4, commits=4, setup=_ahead, write=_merge()),
        MergeKind(name="merge", tables=4, commits=4, setup=_diverged, write=_merge()),
        MergeKind(name="merge_in_tasks", tables=4, commits=4, setup=_diverged, write=_merge_in_tasks, is_in_tasks=True),
        MergeKind(
            name="merge_into_branch",
            tables=2,
            commits=1,
            setup=_two_branches,
            write=_merge(target=OTHER),
            branch=OTHER,
        ),
        MergeKind(
            name="merge_of_main",
            tables=4,
            commits=1,
            setup=_behind,
            write=_merge(MAIN, OTHER),
            branch=OTHER,
            source=MAIN,
        ),
        MergeKind(name="merge_of_schemas", tables=4, commits=2, setup=_schemas_apart, write=_merge()),
        MergeKind(name="merge_of_nothing", tables=0, commits=0, setup=_net_zero, write=_merge()),
        MergeKind(name="merge_beside_nothing", tables=1, commits=1, setup=_net_zero_beside_a_change, write=_merge()),
        ProposalKind(name="proposal", tables=4, commits=4, setup=_proposed, write=_merge_proposal),
        MergeKind(name="revert", tables=4, commits=4, setup=_written_since, write=_revert, source=None),
    )
}
