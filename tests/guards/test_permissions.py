"""What each action of a policy lets an actor do: every operation is executed with each action alone, and without each.

The table in ``permissions.toml`` says what is expected, and the section of ``docs/user/security.md`` is made from it.
Rows are observed in the bytes that a caller gets, errors included; changes in everything that can be read of the graph.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import omnigraph
from omnigraph.engine.load.sources.source import Source
from omnigraph.errors import InternalError, Kind, OmnigraphError, QuerySyntaxError, UnreadableRefusalError
from omnigraph.ir.stored_queries import QuerySource, StoredQueries
from omnigraph.operations import all_operations
from omnigraph.operations import authorized as authorized_module
from omnigraph.operations.authorized import QUESTIONS, AuthorizedBackend, references
from omnigraph.operations.history import FeedRequest
from omnigraph.operations.reads import QueryRequest, ReadEntityRequest
from omnigraph.operations.registry import RegistryBackend
from omnigraph.operations.request import Attachments, Request
from omnigraph.operations.transactions import (
    BeginTransactionRequest,
    CallInTransactionRequest,
    CommitTransactionRequest,
)
from omnigraph.operations.wire import ResponseWriter
from omnigraph.operations.writes import MutateRequest
from omnigraph.policy import Action, Actor
from omnigraph.policy.bundle import BRANCH_ACTIONS, BundleKind, PolicyBundle, Rule, Scope
from omnigraph.policy.policy import BundlePolicy
from tests.session_graph import RELAXED

TABLE = tomllib.loads((Path(__file__).parent / "permissions.toml").read_text(encoding="utf-8"))["permission"]
ACTIONS = [action for action in Action if action is not Action.GRAPH_LIST]
EVE = Actor(name="eve")
MARK = "k7secretk7"
SCHEMA = """\
node Person { name: String @key  note: String?  rank: F64?  photo: Blob? }
edge Knows: Person -> Person
"""
WIDER = SCHEMA.replace("rank: F64?", "rank: F64?  age: I32?")
INSERT = 'query q() { insert Person { name: "bo" } upsert Person { name: "ann", rank: 1.0 } }'
UPDATE = 'query q() { update Person set { rank: 3.0 } where name = "ann" }'
MATCH = "query q() { match { $p: Person } update $p set { rank: 3.0 } }"
RETURN = "query q() { match { $p: Person } update $p set { rank: 3.0 } return { $p.note } }"
NOTES = "query q() { match { $p: Person } return { $p.note } }"
STORED = f"""
{NOTES.replace("q()", "notes()")}
{INSERT.replace("q()", "add()")}
{UPDATE.replace("q()", "change()")}
"""


def bundle(*actions: Action, scope: Scope | None = None) -> BundlePolicy:
    rules = [Rule(id=one.value, group="g", actions=(one,), branch_scope=scope) for one in actions]
    groups = {"g": (EVE.name,)}
    return BundlePolicy(
        PolicyBundle(kind=BundleKind.GRAPH, groups=groups, protected_branches=frozenset(), rules=tuple(rules))
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A graph whose rows hold a text that nothing but a row can bring into an answer."""
    root = tmp_path_factory.mktemp("permissions") / "graph"
    with omnigraph.init(root, SCHEMA, settings=RELAXED) as graph:
        add = f'query q($photo: Blob) {{ insert Person {{ name: "ann", note: "{MARK}", photo: $photo }} }}'
        graph.mutate(add, {"photo": MARK.encode()})
        draft = graph.create_branch("draft")
        draft.mutate(f'query q() {{ insert Person {{ name: "{MARK}", note: "{MARK}" }} }}')
        graph.create_branch("idle")
        graph.create_branch("spare")
        graph.create_tag("first")
        none = NOTES.replace("Person }", 'Person { name: "nobody" } }')
        graph.proposals.open("draft", title="one more", checks=[none], actor="mira")
        graph.proposals.open("draft", "idle", title="none yet", checks=[NOTES], actor="mira")
    return root


@contextmanager
def opened(root: Path) -> Iterator[Any]:
    with omnigraph.open(root, settings=RELAXED) as graph:
        queries = StoredQueries.parse([QuerySource(name="q.gq", text=STORED)])
        yield SimpleNamespace(
            graph=graph,
            backend=RegistryBackend(graph.backend, queries),
            head=str(next(iter(graph.log())).id),
            draft=str(next(iter(graph.branch("draft").log())).id),
            root=root,
        )


def begun(world: Any) -> str:
    """Return a transaction of the actor, with an insert in it."""
    name = world.backend.execute(BeginTransactionRequest(actor=EVE.name)).transaction
    world.backend.execute(CallInTransactionRequest(transaction=name, call=MutateRequest(text=INSERT)))
    return name


def feed_of_draft(world: Any) -> list[dict[str, Any]]:
    batch = world.backend.execute(FeedRequest(start=f"after:{world.head}", branch="draft"))
    return [batch.to_json()]


def call(given: Request[Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda world: {"transaction": begun(world), "call": given}


def lines(world: Any) -> dict[str, Any]:
    path = world.root.parent / f"{world.root.name}.jsonl"
    path.write_text(json.dumps({"type": "Person", "data": {"name": "cy"}}) + "\n")
    return {"sources": [Source(path=str(path))], "mode": "merge"}


ENTITY = {"type_name": "Person", "entity_id": "ann"}
ARGUMENTS: dict[str, dict[str, Any] | Callable[[Any], dict[str, Any]]] = {
    "query": {"text": NOTES},
    "explain": {"text": NOTES, "run": True},
    "resolve_ref": {"ref": "tag:first"},
    "read_network": {"limit": 100},
    "read_entity": ENTITY,
    "read_blob": {**ENTITY, "property": "photo"},
    "plan_schema": {"text": WIDER},
    "run_algorithm": lambda world: {"algorithm": "degree", "at": world.draft},
    "get_commit": lambda world: {"commit_id": world.draft},
    "commit_changes": lambda world: {"commit_id": world.draft},
    "feed": {"start": "beginning"},
    "poll_changes": {"start": "beginning"},
    "diff": {"before": "main", "after": "draft"},
    "diff_page": {"before": "main", "after": "draft"},
    "blame": {**ENTITY, "type_name": "Person", "branch": "draft", "entity_id": MARK},
    "preview_merge": {"source": "draft"},
    "get_proposal": {"number": 1},
    "check_proposal": {"number": 2},
    "export": lambda world: {"to": world.root.parent / f"{world.root.name}-export"},
    "mutate_insert": {"text": INSERT},
    "mutate_batch_insert": {"text": INSERT, "rows": [{}]},
    "load": lines,
    "describe_transaction": lambda world: {"transaction": begun(world)},
    "commit_transaction": lambda world: {"transaction": begun(world)},
    "rollback_transaction": lambda world: {"transaction": begun(world)},
    "call_insert": call(MutateRequest(text=INSERT)),
    "call_query": call(QueryRequest(text=NOTES)),
    "call_entity": call(ReadEntityRequest(**ENTITY)),
    "call_update": call(MutateRequest(text=UPDATE)),
    "mutate_update": {"text": UPDATE},
    "mutate_match": {"text": MATCH},
    "mutate_return": {"text": RETURN},
    "mutate_batch_match": {"text": MATCH, "rows": [{}]},
    "write_algorithm": {"algorithm": "degree", "write": "rank"},
    "apply_changes": lambda world: {"batches": feed_of_draft(world), "branch": "idle"},
    "revert": lambda world: {"commit": world.draft, "branch": "draft"},
    "create_tag": {"name": "second", "at": "draft"},
    "delete_tag": {"name": "first"},
    "open_proposal": {"source": "draft", "target": "spare", "title": "another"},
    "comment_proposal": {"number": 1, "text": "so be it"},
    "close_proposal": {"number": 1},
    "apply_schema": {"text": WIDER},
    "create_branch": {"name": "new", "source": "draft"},
    "create_branch_at": {"name": "new", "at": "tag:first"},
    "delete_branch": {"name": "spare"},
    "merge": {"source": "draft"},
    "approve_proposal": {"number": 1},
    "merge_proposal": {"number": 1},
    "invoke_read": {"name": "notes"},
    "invoke_insert": {"name": "add"},
    "invoke_update": {"name": "change"},
    "cleanup": {"keep": 1},
}


def request_of(world: Any, case: str, operation: str) -> Request[Any]:
    given = ARGUMENTS.get(case, {})
    return all_operations()[operation](**(given(world) if callable(given) else given))


def answered(backend: Any, request: Request[Any]) -> tuple[bytes, OmnigraphError | None]:
    """Return the bytes that a caller gets, those of an exported folder included, and the error among them."""
    data = bytearray()
    writer, failure = ResponseWriter(data.extend), None
    try:
        sink = writer if request.operation.name == "export_stream" else None
        writer.answer(backend.execute(request, Attachments(sink=sink)))
    except OmnigraphError as error:
        failure = error
        writer.fail(error)
    if request.operation.name == "export" and failure is None:
        for path in Path(str(request.to)).rglob("*"):
            data.extend(path.read_bytes() if path.is_file() else b"")
    return bytes(data), failure


def shows(data: bytes) -> bool:
    return MARK.encode() in data or base64.b64encode(MARK.encode()).rstrip(b"=")[:12] in data


def observed(graph: Any) -> dict[str, Any]:
    """Return everything that can be read of a graph, of every branch, and no commit that only maintenance makes."""
    branches, proposals = [str(one.name) for one in graph.branches()], graph.proposals.list(state="all")
    text = "query q() { match { $p: Person } return { $p.name, $p.note, $p.rank } order { $p.name } }"
    return {
        "rows": {name: json.loads(graph.branch(name).query(text).to_json())["rows"] for name in branches},
        "schemas": {name: graph.branch(name).schema.source for name in branches},
        "tags": [str(tag.name) for tag in graph.tags()],
        "proposals": [(one.number, one.state, len(one.comments), one.approved_by) for one in proposals],
    }


ROWS = pytest.mark.parametrize("row", TABLE, ids=lambda row: row["case"])


def test_every_operation_has_its_row():
    assert {row["operation"] for row in TABLE} == set(all_operations())
    assert len({row["case"] for row in TABLE}) == len(TABLE)


@pytest.fixture(scope="module")
def kept(template, tmp_path_factory) -> Iterator[Any]:
    """A graph that no test changes; a branch of it is Eve's own."""
    root = Path(shutil.copytree(template, tmp_path_factory.mktemp("kept") / "graph"))
    with opened(root) as world:
        world.graph.create_branch(MINE)
        world.before = observed(world.graph)
        yield world


@ROWS
def test_an_operation_needs_exactly_these_actions(template, tmp_path, row):
    shutil.copytree(template, tmp_path / "graph")
    needs = {Action(name) for name in row["needs"]}
    with opened(tmp_path / "graph") as world:
        request = request_of(world, row["case"], row["operation"])
        before = observed(world.graph)
        refusals = [{one} for one in ACTIONS if needs != {one}] + [needs - {one} for one in needs]
        refusals.append(set(ACTIONS) - {next(iter(needs))})
        for granted in refusals:
            data, failure = answered(AuthorizedBackend(world.backend, bundle(*granted), EVE), request)
            assert failure is not None, granted
            assert failure.kind in {Kind.DENIED, Kind.NOT_FOUND}, (granted, failure)
            assert not shows(data)
        if row["changes"]:
            # What the others are refused, they would not change anyway.
            assert observed(world.graph) == before
        data, failure = answered(AuthorizedBackend(world.backend, bundle(*needs), EVE), request)
        assert failure is None
        assert (shows(data), observed(world.graph) != before) == (row["shows_rows"], row["changes"])


@pytest.mark.parametrize("actions", [{Action.CHANGE}, {Action.CHANGE, Action.INVOKE_QUERY}], ids=len)
def test_refusals_and_counts_of_writes_say_nothing_of_unreadable_rows(template, tmp_path, actions):
    """Each write meets something that is stored: a name of the schema, a key, rows that are there already."""
    shutil.copytree(template, tmp_path / "graph")
    with opened(tmp_path / "graph") as world:
        mine = AuthorizedBackend(world.backend, bundle(*actions), EVE)
        misspelt = 'query q() { insert Person { name: "x", nota: "y" } }'
        strict = f'query q() {{ insert Person {{ name: "ann", note: "{MARK[::-1]}" }} strict }}'
        unknown = 'query q() { insert Knows { from: "ann", to: "nobody" } }'
        tried: list[Request[Any]] = [MutateRequest(text=text) for text in (misspelt, strict, unknown)]
        # The ends of an edge are looked for when a transaction is committed.
        tried += [CallInTransactionRequest(transaction=begun(world), call=one) for one in tried[:2]]
        for request in tried:
            with pytest.raises(OmnigraphError) as plain:
                world.backend.execute(request)
            with pytest.raises(UnreadableRefusalError) as refused:
                mine.execute(request)
            assert refused.value.effect == plain.value.effect
            assert not {"note", "Person", "ann"} & set(re.findall(r"\w+", json.dumps(refused.value.to_json())))
        there = 'query q() { upsert Person { name: "ann", rank: 2.0 } upsert Person { name: "new" } }'
        done = mine.execute(MutateRequest(text=there))
        assert done.commit is not None
        assert (done.inserted, done.updated, done.affected_nodes) == (0, 0, 0)
        name = mine.execute(BeginTransactionRequest()).transaction
        mine.execute(CallInTransactionRequest(transaction=name, call=MutateRequest(text=there.replace("2.0", "4.0"))))
        (counted,) = mine.execute(CommitTransactionRequest(transaction=name)).calls
        assert (counted.inserted, counted.updated, counted.affected_nodes) == (0, 0, 0)
        with pytest.raises(QuerySyntaxError, match="expected"):
            mine.execute(MutateRequest(text="query q() { insert Person { "))


# Fields that hold plain data, or places within an answer that is bound to what it was an answer to.
DATA = frozenset(
    re.findall(
        r"\w+",
        "actor after algorithm allow_data_loss batch batches check_names checks confirm cursor decisions "
        "description discard dry_run edges entity_id errors_to every expected_head expected_source_head "
        "force format full head ids "
        "keep kind kinds length limit limits max_affected max_conflicts message mode name older_than_s "
        "on_conflict on_delete ops options page_token params params_form patch policy preview projections "
        "property reason required_approvals resolve rows run seen settings since source_name sources start "
        "state storage text title to transaction truncate type_name types until write ",
    )
)
FIELDS = [(name, one.name) for name, cls in sorted(all_operations().items()) for one in fields(cls)]


@pytest.mark.parametrize("operation", sorted(all_operations()))
def test_every_field_is_data_or_names_something_that_is_decided_about(operation):
    """A field that is new is listed here, or in ``operations/authorized.py`` as one that names something."""
    cls = all_operations()[operation]
    made = object.__new__(cls)
    for one in fields(cls):
        object.__setattr__(made, one.name, "x")
    named = references(made)
    assert {one.name for one in fields(cls)} - named <= DATA
    assert (
        not {"branch", "at", "ref", "before", "commit", "commit_id", "number"} & {f.name for f in fields(cls)} - named
    )


def test_an_operation_whose_questions_leave_out_a_field_is_refused(template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "graph")
    forgetful = {**QUESTIONS, "merge": QUESTIONS["list_branches"]}
    monkeypatch.setattr(authorized_module, "QUESTIONS", forgetful)
    with opened(tmp_path / "graph") as world, pytest.raises(InternalError, match="'merge' is about its field 'source'"):
        AuthorizedBackend(world.backend, bundle(*ACTIONS), EVE).execute(all_operations()["merge"](source="draft"))


# A way to name the branch draft in each kind of field; draft is not eve's own.
SECRETS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("branch", "source", "before", "after", "ref"), lambda world: "draft"),
    "target": lambda world: "draft",
    "at": lambda world: "draft~0",
    "commit": lambda world: world.draft,
    "commit_id": lambda world: world.draft,
    "number": lambda world: 1,
}
MINE = "agents/eve/b"
# What a request needs besides, always of a branch of eve's own.
BESIDES: dict[str, Any] = {
    **dict.fromkeys(("source", "target", "branch", "before", "after", "ref"), MINE),
    **ENTITY,
    **dict.fromkeys(("title", "to"), "nowhere"),
    "name": "agents/eve/new",
    "text": NOTES,
    "property": "photo",
    "limit": 9,
    "algorithm": "degree",
    "write": "rank",
    "start": "now",
    **dict.fromkeys(("rows", "sources", "batches"), ()),
}


@pytest.mark.parametrize(
    ("operation", "field"), [(o, f) for o, f in FIELDS if f in SECRETS and (f != "after" or "diff" in o)]
)
def test_nothing_is_taken_from_a_branch_that_may_not_be_read(kept, operation, field):
    """Eve may do everything on her own branches and read nothing else: whatever field leads there, she is refused."""
    # Actions that bring rows from one branch to another are allowed everywhere: only ``read`` stands in the way.
    everywhere = [one for one in ACTIONS if one not in {*BRANCH_ACTIONS, Action.MAINTAIN}]
    rules = [Rule(id=one.value, group="g", actions=(one,), branch_scope=Scope.OWN) for one in BRANCH_ACTIONS]
    rules += [Rule(id=one.value, group="g", actions=(one,)) for one in everywhere]
    policy = BundlePolicy(
        PolicyBundle(kind=BundleKind.GRAPH, groups={"g": ("eve",)}, protected_branches=frozenset(), rules=tuple(rules))
    )
    cls = all_operations()[operation]
    names = {one.name for one in fields(cls)}
    besides = {**BESIDES, "commit": kept.head, "commit_id": kept.head}
    if field == "branch":
        # References that are about the branch beside them.
        besides |= dict.fromkeys(("before", "after", "ref"), "@2100-01-01")
    given = {name: value for name, value in besides.items() if name in names and name != field}
    request = cls(**given, **{field: SECRETS[field](kept)})
    data, failure = answered(AuthorizedBackend(kept.backend, policy, EVE), request)
    assert failure is not None
    assert failure.kind in {Kind.DENIED, Kind.NOT_FOUND}
    assert not shows(data)
    assert observed(kept.graph) == kept.before
