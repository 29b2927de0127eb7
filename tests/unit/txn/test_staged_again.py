"""Writes that are staged again because another one was published first: they never meet what they left before."""

import pytest
from tests.auditor import audit
from tests.session_graph import create_graph, open_session
from tests.txn_graph import PERSON, TEAM, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import on_nth
from omnigraph.values import BranchName

DRAFT = BranchName("draft")
BEFORE_CLAIM = "txn.claim.before_put"


@pytest.fixture
def runtime():
    return Runtime.system()


def test_first_write_of_a_branch_to_a_table_that_is_overtaken_is_made_again(tmp_path, runtime):
    storage = init_graph(tmp_path / "g")
    with open_graph(storage) as other, open_graph(storage, runtime=runtime) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        graph.create_branch(DRAFT)
        # Nobody else writes here as far as this process knows, so that it does not look again behind its claim.
        insert(graph, TEAM, node_rows(["mine"]), branch=DRAFT)
        runtime.failpoints.enable(
            BEFORE_CLAIM, on_nth(1, lambda: insert(other, TEAM, node_rows(["theirs"]), branch=DRAFT))
        )
        insert(graph, PERSON, node_rows(["b"]), branch=DRAFT)
        assert sorted(read_ids(graph, PERSON, DRAFT)) == ["a", "b"]
        assert sorted(read_ids(graph, TEAM, DRAFT)) == ["mine", "theirs"]
        assert read_ids(graph, PERSON) == ["a"]
    assert audit(str(tmp_path / "g")) == []


def test_schema_change_with_a_new_type_that_is_overtaken_is_made_again(tmp_path, runtime):
    create_graph(tmp_path / "g", "node Person { name: String @key }")
    add = "query a($n: String) { insert Person { name: $n } }"
    with open_session(tmp_path / "g") as other, open_session(tmp_path / "g", runtime=runtime) as session:
        session.mutate(add, {"n": "a"})
        runtime.failpoints.enable(BEFORE_CLAIM, on_nth(1, lambda: other.mutate(add, {"n": "b"})))
        session.apply_schema("node Person { name: String @key }\nnode Team { code: String @key }")
        assert session.query("query q() { match { $p: Person } return { count($p) as n } }").rows() == [{"n": 2}]
        session.mutate('query t() { insert Team { code: "x" } }')
    assert audit(str(tmp_path / "g"), edges={}) == []
