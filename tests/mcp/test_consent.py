"""What a person agrees to is what happens: writes to protected branches, and merges into them, bound to their heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.ir.stored_queries import QuerySource, StoredQueries
from omnigraph.mcp.local import LocalHost
from omnigraph.mcp.server import agent_server
from omnigraph.operations.history import MergeRequest
from omnigraph.operations.registry import RegistryBackend
from omnigraph.operations.request import NOTHING, BackendWrapper
from omnigraph.operations.writes import LoadRequest, MutateRequest
from tests.marks import first
from tests.mcp.agent import Agent, Person, connect
from tests.mcp.conftest import make_club

MODES = first(1, ("auto", "legacy"))
RENAME = "query rename($sail: String, $name: String) { update Boat set { name: $name } where sail = $sail }"
STORED = RENAME.replace("rename(", "rename_boat(").replace(") {", ') @mcp("expose") {', 1)
BOAT = {"type": "Boat", "data": {"sail": "NOR-77", "name": "Loaded"}}
WRITES = {
    "mutate": {"text": RENAME, "params": {"sail": "SWE-3", "name": "Written"}},
    "load": {"records": [BOAT]},
    "stored_query_change": {"name": "rename_boat", "params": {"sail": "SWE-3", "name": "Stored"}},
    "rename_boat": {"params": {"sail": "SWE-3", "name": "Exposed"}},
}


class Meanwhile(BackendWrapper):
    """Lets something happen once, right before a request of a kind is executed."""

    def __init__(self, inner, kind, what: Callable[[], object]) -> None:
        super().__init__(inner)
        self._kind, self._what = kind, what

    def execute(self, request, attached=NOTHING):
        if isinstance(request, self._kind) and self._what is not None:
            what, self._what = self._what, None
            what()
        return self._inner.execute(request, attached)


@pytest.fixture
def graph(tmp_path) -> Iterator[Graph]:
    """A graph of its own for each test, open."""
    with omnigraph.open(make_club(tmp_path / "club.omni")) as opened:
        yield opened


def server_of(graph: Graph, backend=None, **options):
    """Return the server of a graph with a stored query."""
    queries = StoredQueries.parse([QuerySource(name="boats.gq", text=STORED)])
    return agent_server(LocalHost(RegistryBackend(backend or graph.backend, queries), actor="planner", **options))


def renamed(branch, name: str) -> None:
    branch.mutate(RENAME, {"sail": "SWE-3", "name": name})


def name_on(state) -> str:
    query = "query q() { match { $b: Boat { sail: 'SWE-3' } } return { $b.name as name } }"
    return state.query(query).to_arrow().to_pylist()[0]["name"]


@pytest.mark.parametrize("mode", MODES)
def test_a_merge_of_nothing_merges_nothing_that_comes_behind_the_look(graph: Graph, mode: str):
    branch, person = graph.create_branch("quiet"), Person()
    before = graph.log()[0].id
    backend = Meanwhile(graph.backend, MergeRequest, lambda: renamed(branch, "Not shown"))
    with connect(server_of(graph, backend), mode=mode, person=person) as agent:
        error = agent.fail("merge", source="quiet")
        assert (error["code"], error["retry"], error["effect"]) == ("agent.consent_stale", "after_refresh", "none")
        assert (person.asked, graph.log()[0].id) == ([], before)
        assert agent.call("merge", source="quiet")["outcome"] == "fast_forward"
        assert len(person.asked) == 1
        # With nothing to merge nobody is asked.
        assert agent.call("merge", source="quiet")["commit"] is None
        assert len(person.asked) == 1


@pytest.mark.parametrize("mode", MODES)
def test_consent_to_one_head_of_the_source_merges_no_newer_one(graph: Graph, mode: str):
    branch = graph.create_branch("moving")
    renamed(branch, "Shown")
    before = graph.log()[0].id
    backend = Meanwhile(graph.backend, MergeRequest, lambda: renamed(branch, "Not shown"))
    with connect(server_of(graph, backend), mode=mode, person=Person()) as agent:
        assert agent.fail("merge", source="moving")["code"] == "agent.consent_stale"
        assert graph.log()[0].id == before


@pytest.mark.parametrize("mode", MODES)
def test_consent_to_one_head_of_the_target_merges_into_no_newer_one(graph: Graph, mode: str):
    renamed(graph.create_branch("moving"), "Shown")
    failpoints = graph.backend.engine.runtime.failpoints

    def move() -> None:
        failpoints.disable("history.merge.after_capture")
        graph.mutate(RENAME, {"sail": "NOR-1", "name": "Between"})

    failpoints.enable("history.merge.after_capture", move)
    with connect(server_of(graph), mode=mode, person=Person()) as agent:
        assert agent.fail("merge", source="moving")["code"] == "agent.consent_stale"
    assert name_on(graph) != "Shown"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", WRITES)
def test_a_write_to_main_is_what_a_person_agreed_to(graph: Graph, tool: str, mode: str):
    person = Person()
    with connect(server_of(graph), mode=mode, person=person) as agent:
        written = agent.call(tool, branch="main", **WRITES[tool])
        assert graph.log()[0].id == written["commit"]
        (question,) = person.asked
        assert "branch 'main' for 'planner'?\n" in question
        assert {"mutate": "update Boat", "load": "NOR-77"}.get(tool, "SWE-3") in question
        # Nobody is asked about branches that nobody protects.
        agent.call("branch_create", name="other")
        agent.call(tool, branch="other", **WRITES[tool])
        assert agent.call(tool, **WRITES[tool])["branch_created"]
        assert len(person.asked) == 1


@pytest.mark.parametrize("answer", [None, Person("decline"), Person("cancel"), Person("accept", {"agree": False})])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", WRITES)
def test_a_write_to_main_that_nobody_agrees_to_does_not_happen(graph: Graph, tool: str, mode: str, answer):
    before = graph.log()[0].id
    with connect(server_of(graph), mode=mode, person=answer) as agent:
        for name in ("main", " main "):
            error = agent.fail(tool, branch=name, **WRITES[tool])
            if name == "main":
                assert (error["code"], error["kind"]) == ("agent.consent", "denied")
                assert "a branch of your own" in error["hint"]
        assert agent.fail(tool, branch="main", idempotency_key="k", **WRITES[tool])["code"] == "agent.consent"
    assert graph.log()[0].id == before


def test_the_branch_of_the_command_is_protected_too(graph: Graph):
    graph.create_branch("release")
    with connect(server_of(graph, branch="release")) as agent:
        for name in ("release", "main"):
            assert agent.fail("mutate", branch=name, **WRITES["mutate"])["code"] == "agent.consent"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", ["mutate", "load"])
def test_consent_to_a_write_is_bound_to_the_head(graph: Graph, tool: str, mode: str):
    kind = {"mutate": MutateRequest, "load": LoadRequest}[tool]

    def move() -> None:
        graph.mutate(RENAME, {"sail": "NOR-1", "name": "Between"})

    person = Person()
    with connect(server_of(graph, Meanwhile(graph.backend, kind, move)), mode=mode, person=person) as agent:
        assert agent.fail(tool, branch="main", **WRITES[tool])["code"] == "agent.consent_stale"
        assert graph.log()[0].actor != "planner"
        assert agent.call(tool, branch="main", **WRITES[tool])["commit"]
    assert len(person.asked) == 2


def test_an_operator_can_let_an_agent_change_main(graph: Graph):
    renamed(graph.create_branch("more"), "Merged")
    with connect(server_of(graph, asks=False)) as agent:
        assert agent.call("merge", source="more")["outcome"] == "fast_forward"
        for tool, arguments in WRITES.items():
            agent.call(tool, branch="main", **arguments)
        assert not any(one["is_protected"] for one in agent.call("branch_list")["branches"])
    assert name_on(graph) == "Exposed"


def test_consent_to_one_call_is_none_to_another(graph: Graph):
    """Whatever a client hands back with an answer, it is about the call that was asked about."""
    import mcp_types  # noqa: PLC0415 - the messages themselves, which the client makes by itself

    with connect(server_of(graph), person=Person()) as agent:
        first = ask_by_hand(agent, mcp_types, "main", WRITES["mutate"], None)
        other = {**WRITES["mutate"], "params": {"sail": "SWE-3", "name": "Smuggled"}}
        again = ask_by_hand(agent, mcp_types, "main", other, first.request_state)
        assert again.request_state not in {None, first.request_state}
        done = ask_by_hand(agent, mcp_types, "main", WRITES["mutate"], first.request_state)
        assert done.structured_content["branch"] == "main"
    assert name_on(graph) == "Written"


def ask_by_hand(agent: Agent, types, branch: str, arguments: dict, state: str | None):
    """Send a call with an answer, and return what comes back."""
    answer = None if state is None else {"consent": types.ElicitResult(action="accept", content={"agree": True})}
    given = {"branch": branch, **arguments}

    async def send():
        return await agent.client.session.call_tool(
            "mutate", given, input_responses=answer, request_state=state, allow_input_required=True
        )

    return agent.portal.call(send)
