"""Every operation asks its policy first, about the states that it will use; a denial changes nothing.

Which actions an operation needs is proved by ``tests/guards/test_permissions.py``, which executes all of them.
"""

from __future__ import annotations

import pytest
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.errors import (
    CommitMissingError,
    FileMissingError,
    InternalError,
    PolicyDeniedError,
    PolicyFormatError,
    StoredQueryMissingError,
    TransactionEndedError,
    UsageError,
    ValueFormatError,
)
from omnigraph.ir.stored_queries import QuerySource, StoredQueries
from omnigraph.operations import authorized as authorized_module
from omnigraph.operations.algorithms import RunAlgorithmRequest
from omnigraph.operations.authorized import AuthorizedBackend
from omnigraph.operations.history import (
    BaselineRequest,
    CommitChangesRequest,
    CreateBranchRequest,
    CreateTagRequest,
    DeleteBranchRequest,
    DiffRequest,
    FeedRequest,
    GetCommitRequest,
    ListBranchesRequest,
    LogRequest,
    MergeRequest,
)
from omnigraph.operations.maintenance import CleanupRequest, MigrateRequest
from omnigraph.operations.proposals import (
    MergeProposalRequest,
)
from omnigraph.operations.reads import ExportStreamRequest, QueryRequest, ReadStateRequest, ResolveRefRequest
from omnigraph.operations.registry import RegistryBackend
from omnigraph.operations.stored import (
    InvokeMutationRequest,
    InvokeReadRequest,
    ListQueriesRequest,
)
from omnigraph.operations.transactions import (
    BeginTransactionRequest,
    CallInTransactionRequest,
    CommitTransactionRequest,
    RollbackTransactionRequest,
)
from omnigraph.operations.writes import ApplySchemaRequest, LoadRequest, MutateRequest
from omnigraph.policy import Action, Actor, Decision, Question
from omnigraph.policy.bundle import parse_bundle
from omnigraph.policy.policy import BundlePolicy

SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
MIRA, JON = Actor(name="act-mira"), Actor(name="act-jon")


class Recording:
    """Answers as told and remembers what it was asked."""

    resource_id = "graph"

    def __init__(self, is_allowed=lambda question: True):
        self.is_allowed = is_allowed
        self.asked = []

    def decide(self, actor, question):
        self.asked.append(question)
        return Decision(allowed=self.is_allowed(question), message=f"policy was asked for '{question.action}'")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph with a commit on main, one on the branch draft, a tag on each, and a proposal."""
    root = tmp_path_factory.mktemp("authorized")
    with omnigraph.init(root / "graph", SCHEMA, settings=RELAXED) as made:
        made.mutate(ADD, {"name": "ann"})
        draft = made.create_branch("draft")
        draft.mutate(ADD, {"name": "bo"})
        made.create_tag("stable")
        draft.create_tag("wip")
        made.proposals.open("draft", title="bo")
        yield made


@pytest.fixture(scope="module")
def commits(graph):
    return {name: str(next(iter(graph.branch(name).log())).id) for name in ("main", "draft")}


def asked(graph, request) -> list[Question]:
    policy = Recording()
    AuthorizedBackend(graph.backend, policy, MIRA).authorize(request)
    return policy.asked


def on(action: Action, branch: str | None = None, target: str | None = None) -> list[Question]:
    return [Question(action=action, branch=branch, target_branch=target)]


def test_an_operation_without_questions_is_refused(graph, monkeypatch):
    monkeypatch.setattr(authorized_module, "QUESTIONS", {})
    with pytest.raises(InternalError, match="no policy question is defined for the operation 'list_branches'"):
        asked(graph, ListBranchesRequest())


@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        (ReadStateRequest(), on(Action.READ, "main")),
        (LogRequest(branch="draft"), on(Action.READ, "draft")),
        (QueryRequest(text=NAMES, branch="draft"), on(Action.READ, "draft")),
        (QueryRequest(text=NAMES, at="draft"), on(Action.READ, "draft")),
        (QueryRequest(text=NAMES, branch="draft", at="main~1"), on(Action.READ, "main")),
        (QueryRequest(text=NAMES, branch="draft", at="tag:stable"), on(Action.READ, "main")),
        (QueryRequest(text=NAMES, at="tag:wip"), on(Action.READ, "draft")),
        (QueryRequest(text=NAMES, branch="draft", at="draft~1"), on(Action.READ, "main")),
        (QueryRequest(text=NAMES, branch="draft", at="tag:nowhere"), on(Action.READ, "main")),
        (ResolveRefRequest(ref="tag:wip"), on(Action.READ, "draft")),
        (ListBranchesRequest(), on(Action.READ)),
        (GetCommitRequest(commit_id="0" * 26), on(Action.READ)),
        (FeedRequest(start="now", branch="draft"), on(Action.READ, "draft")),
        (ExportStreamRequest(branch="draft"), on(Action.EXPORT, "draft")),
        (ExportStreamRequest(at="tag:wip"), on(Action.EXPORT, "draft")),
        (BaselineRequest(), on(Action.EXPORT, "main")),
        (RunAlgorithmRequest(algorithm="degree", at="tag:wip"), on(Action.READ, "draft")),
        (DiffRequest(before="main", after="tag:wip"), on(Action.READ, "main") + on(Action.READ, "draft")),
        (InvokeReadRequest(name="q", at="tag:wip"), on(Action.INVOKE_QUERY) + on(Action.READ, "draft")),
    ],
    ids=lambda value: getattr(getattr(value, "operation", None), "name", ""),
)
def test_a_request_asks_about_the_branch_that_its_state_was_made_on(graph, request_of, expected):
    assert asked(graph, request_of) == expected


def test_what_was_decided_about_is_what_is_read(graph, commits):
    backend = AuthorizedBackend(graph.backend, Recording(), MIRA)
    pinned = backend.authorize(QueryRequest(text=NAMES, at="tag:wip"))
    assert (pinned.at, pinned.branch) == (commits["draft"], "main")
    pinned = backend.authorize(QueryRequest(text=NAMES, at="draft~1"))
    assert (pinned.at, pinned.branch) == (commits["main"], "draft")
    assert backend.authorize(QueryRequest(text=NAMES, at="draft")).at == "draft"


@pytest.mark.parametrize("name", ["", "  ", "a b", "/a", None])
def test_a_name_that_is_no_branch_is_refused_before_the_policy_is_asked(graph, name):
    policy = Recording()
    backend = AuthorizedBackend(graph.backend, policy, MIRA)
    if name is not None:
        with pytest.raises(ValueFormatError, match="branch"):
            backend.execute(MutateRequest(text=ADD, branch=name))
        with pytest.raises(ValueFormatError, match="branch"):
            backend.check(Action.CHANGE, name)
    assert policy.asked == []


def test_a_denied_write_changes_nothing(graph):
    backend = AuthorizedBackend(graph.backend, Recording(lambda question: question.action is Action.READ), MIRA)
    before = next(iter(graph.log())).id
    denied = [
        MutateRequest(text=ADD, params={"name": "eve"}),
        LoadRequest(sources=["/nowhere"]),
        CreateBranchRequest(name="other"),
        DeleteBranchRequest(name="draft"),
        MergeRequest(source="draft"),
        CreateTagRequest(name="t"),
        ApplySchemaRequest(text="node Other { a: String @key }"),
        BeginTransactionRequest(),
        CleanupRequest(keep=1, confirm=True),
        MigrateRequest(),
        MergeProposalRequest(number=1),
    ]
    for request in denied:
        with pytest.raises(PolicyDeniedError, match="policy was asked for") as caught:
            backend.execute(request)
        assert caught.value.details.actor == "act-mira"
    assert next(iter(graph.log())).id == before
    assert [status.name for status in graph.branches()] == ["main", "draft"]


def test_a_commit_that_may_not_be_seen_looks_like_one_that_does_not_exist(graph, commits):
    backend = AuthorizedBackend(graph.backend, Recording(lambda question: question.branch != "draft"), MIRA)
    assert backend.execute(CommitChangesRequest(commit_id=commits["main"])).block
    with pytest.raises(CommitMissingError, match="not found") as hidden:
        backend.execute(CommitChangesRequest(commit_id=commits["draft"]))
    unknown = "0" * 26
    with pytest.raises(CommitMissingError, match="not found") as missing:
        backend.execute(CommitChangesRequest(commit_id=unknown))
    assert hidden.value.to_json() == {
        **missing.value.to_json(),
        "message": missing.value.message.replace(unknown, commits["draft"]),
        "details": {**missing.value.to_json()["details"], "name": commits["draft"]},
    }


def test_who_may_not_invoke_queries_does_not_learn_which_there_are(graph):
    """A denial of the query itself looks like one that is not there; what it would do is denied as elsewhere."""
    text = f"{NAMES}\n{ADD}"
    stored = RegistryBackend(graph.backend, StoredQueries.parse([QuerySource(name="q.gq", text=text)]))
    nobody = AuthorizedBackend(stored, Recording(lambda question: question.action is not Action.INVOKE_QUERY), MIRA)
    for name in ("names", "nope"):
        with pytest.raises(StoredQueryMissingError, match="stored query not found") as hidden:
            nobody.execute(InvokeReadRequest(name=name))
        assert hidden.value.details.near == ()
    assert [one.name for one in nobody.execute(ListQueriesRequest())] == ["add", "names"]
    reader = AuthorizedBackend(stored, Recording(lambda question: question.action is not Action.CHANGE), MIRA)
    assert len(list(reader.execute(InvokeReadRequest(name="names")))) == 1
    with pytest.raises(PolicyDeniedError, match="policy was asked for 'change'"):
        reader.execute(InvokeMutationRequest(name="add", params={"name": "eve"}))
    with pytest.raises(StoredQueryMissingError, match="stored query 'nmes' was not found"):
        reader.execute(InvokeReadRequest(name="nmes"))


def test_writes_record_the_actor_and_no_other_can_be_named(graph):
    backend = AuthorizedBackend(graph.backend, Recording(), MIRA)
    assert backend.execute(MutateRequest(text=ADD, params={"name": "cy"}, branch="draft")).commit.actor == "act-mira"
    with pytest.raises(UsageError, match="the actor of a write must be the caller, not 'act-jon'"):
        backend.execute(MutateRequest(text=ADD, params={"name": "di"}, actor="act-jon"))
    assert backend.authorize(LogRequest(actor="act-jon")).actor == "act-jon"


def test_a_transaction_belongs_to_the_actor_who_began_it(graph):
    policy = Recording()
    mira, jon = (AuthorizedBackend(graph.backend, policy, actor) for actor in (MIRA, JON))
    name = mira.execute(BeginTransactionRequest(branch="draft")).transaction
    add = CallInTransactionRequest(transaction=name, call=MutateRequest(text=ADD, params={"name": "flo"}))
    for request in (add, CommitTransactionRequest(transaction=name), RollbackTransactionRequest(transaction=name)):
        with pytest.raises(TransactionEndedError, match="no open transaction"):
            jon.execute(request)
    mira.execute(add)
    assert mira.execute(CommitTransactionRequest(transaction=name)).commit.actor == "act-mira"
    assert {question.branch for question in policy.asked} == {"draft"}


BUNDLE = """\
version: 1
groups: {editors: [act-mira]}
protected_branches: [main]
rules:
  - id: read
    allow: {actors: {group: editors}, actions: [read]}
  - id: draft
    allow: {actors: {group: editors}, actions: [change], branch_scope: unprotected}
"""


def test_an_embedded_graph_is_opened_with_a_policy(graph, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(BUNDLE, encoding="utf-8")
    with omnigraph.open(graph.uri, policy=path, actor=" act-mira ") as mine:
        assert len(list(mine.query(NAMES))) == 1
        assert mine.branch("draft").mutate(ADD, {"name": "gus"}).commit.actor == "act-mira"
        with pytest.raises(PolicyDeniedError, match="denied action 'change' on branch 'main' for actor 'act-mira'"):
            mine.mutate(ADD, {"name": "gus"})
        with pytest.raises(PermissionError):
            mine.merge("draft")
    with (
        omnigraph.open(graph.uri, policy=BundlePolicy(parse_bundle(BUNDLE.encode(), "p"))) as unnamed,
        pytest.raises(PolicyDeniedError, match="without an actor"),
    ):
        unnamed.query(NAMES)


def test_an_actor_alone_is_recorded_and_restricts_nothing(graph):
    with omnigraph.open(graph.uri, actor="act-jon") as mine:
        assert mine.branch("draft").mutate(ADD, {"name": "hal"}).commit.actor == "act-jon"


def test_a_policy_that_cannot_be_used_opens_nothing(graph, tmp_path):
    with pytest.raises(FileMissingError, match=r"nowhere.yaml"):
        omnigraph.open(graph.uri, policy=tmp_path / "nowhere.yaml")
    path = tmp_path / "policy.yaml"
    path.write_text(BUNDLE.replace("[read]", "[write]"), encoding="utf-8")
    with pytest.raises(PolicyFormatError, match="unknown action 'write'"):
        omnigraph.open(graph.uri, policy=str(path), actor="act-mira")
    for wrong in ({"policy": 7}, {"actor": 7}, {"actor": " "}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            omnigraph.open(graph.uri, **wrong)
