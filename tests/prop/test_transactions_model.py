"""Random transactions, with another writer between their calls, against the plain-dictionary model.

A transaction is one mutation of all its statements: published as if it had been sent at its commit, unless its caller
has seen what the other writer changed, which is a conflict and leaves nothing.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import ConstraintViolationError, TransactionConflictError
from tests.prop.model_mutations import SCHEMA, SEED, run_model
from tests.prop.test_mutations_model import LONG, MUTATION, _named, _write
from tests.session_graph import RELAXED, create_graph, open_session, read_graph

PEOPLE = "query people() { match { $p: Person } return { $p.name, $p.age, $p.rank } order { $p.name } }"


@dataclass(frozen=True)
class Scenario:
    """Calls, the place behind which another writer writes and what, and the place behind which the caller reads."""

    calls: list
    other: list | None
    wrote_behind: int
    looked_behind: int | None


SCENARIOS = st.builds(
    Scenario,
    calls=st.lists(MUTATION, min_size=1, max_size=4),
    other=st.one_of(st.none(), MUTATION),
    wrote_behind=st.integers(0, 4),
    looked_behind=st.one_of(st.none(), st.none(), st.integers(0, 4)),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("model") / "graph"
    create_graph(root, SCHEMA, SEED)
    return root


def stored(root):
    with open_session(root) as session:
        return {key.partition(":")[2]: rows for key, rows in read_graph(session).items()}


def written_meanwhile(before, other):
    """What another writer leaves; its made-up ids must not be mistaken for those of the transaction."""
    if other is None:
        return None
    done = run_model(before, other)
    if done.broken is not None or not done.has_commit:
        return None
    return {
        kind: {chosen.replace("*", "other*"): row for chosen, row in rows.items()} for kind, rows in done.tables.items()
    }


def play(graph, rival, scenario, before, *, has_other):
    """Run the calls of a scenario, the other writer and the read between them."""
    with graph.transaction() as t:
        results = []
        for place in range(5):
            if place == scenario.wrote_behind and has_other:
                rival.mutate(*_write(scenario.other))
            if place == scenario.looked_behind:
                so_far = run_model(before, [one for call in scenario.calls[:place] for one in call])
                found = {row["p.name"]: (row["p.age"], row["p.rank"]) for row in t.query(PEOPLE)}
                assert found == {name: (row["age"], row["rank"]) for name, row in so_far.tables["Person"].items()}
            if place < len(scenario.calls):
                results.append(t.mutate(*_write(scenario.calls[place])))
    return t, results


@settings(max_examples=400 if LONG else 10, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenario=SCENARIOS)
@pytest.mark.timeout(1800 if LONG else 600)
def test_random_transactions_do_what_the_model_does(template, tmp_path_factory, scenario):
    root = tmp_path_factory.mktemp("transaction") / "graph"
    shutil.copytree(template, root)
    before = stored(root)
    meanwhile = written_meanwhile(before, scenario.other)
    has_other = meanwhile is not None
    state = before if meanwhile is None else meanwhile
    expected = run_model(state, [one for call in scenario.calls for one in call])
    with omnigraph.open(root, settings=RELAXED) as graph, omnigraph.open(root, settings=RELAXED) as rival:
        head = graph.log()[0].id
        try:
            t, results = play(graph, rival, scenario, before, has_other=has_other)
        except (TransactionConflictError, ConstraintViolationError) as problem:
            refusal = problem
        else:
            refusal = None
        commits = [commit for commit in graph.log() if commit.id > head]
    if refusal is not None:
        event(refusal.code)
        if isinstance(refusal, ConstraintViolationError):
            assert refusal.details.items[0].rule == expected.broken
        else:
            assert has_other
            assert scenario.looked_behind is not None
        assert _named(stored(root), before) == _named(state, before)
        return
    event("published" if t.published else "nothing to change")
    assert expected.broken is None
    assert sum(one.affected_nodes for one in results) == expected.nodes
    assert sum(one.affected_edges for one in results) == expected.edges
    assert (t.published is not None) == expected.has_commit
    assert [commit.operation for commit in commits].count("transaction") == expected.has_commit
    assert len(commits) == expected.has_commit + has_other
    if scenario.looked_behind is not None:
        assert all("node:Person" not in one.touched for one in commits if one.operation != "transaction")
    assert _named(stored(root), before) == _named(expected.tables, before)
