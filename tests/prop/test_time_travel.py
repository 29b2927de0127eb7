"""Any query at any earlier commit answers as it would have answered then."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import ConstraintViolationError
from omnigraph.lang.gq import parse_queries
from omnigraph.runtime import Runtime
from omnigraph.txn.changes import Compaction
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.prop.choices import choices
from tests.prop.model_mutations import SCHEMA, SEED
from tests.prop.read_queries import Read, write_read
from tests.prop.read_schemas import NOW_MS
from tests.prop.test_mutations_model import MUTATION, _write
from tests.query_graph import build_indexes, oracle_graph
from tests.query_oracle import disagreement, evaluate, read_schema
from tests.query_oracle.values import to_text
from tests.session_graph import commit_ids, create_graph, open_session

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
READ_SCHEMA = read_schema(SCHEMA)
WHOLE = [
    *(
        f"query q() {{ match {{ $x: {name} }} return {{ $x, $x.* }} order {{ $x.{first} }} }}"
        for name, first in (("Person", "age"), ("Note", "n"))
    ),
    *(
        f"query q() {{ match {{ $x $w:{edge} $y }} return {{ $x, $y, $w.* }} order {{ $w.w desc }} }}"
        for edge in ("knows", "wrote")
    ),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("travel") / "graph"
    create_graph(root, SCHEMA, SEED, runtime=Runtime.seeded(1))
    return root


@pytest.mark.timeout(1800 if LONG else 600)
def test_any_query_at_any_commit_answers_as_it_did_then(template):
    class Machine(TravelMachine):
        graph = template

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=300 if LONG else 10,
            stateful_step_count=16,
            deadline=None,
            # Every attempt at a shorter run is a graph of its own; only a long run has the time for that.
            phases=list(Phase) if LONG else [Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


class TravelMachine(RuleBasedStateMachine):
    """A graph that is changed and asked in turns, and what it held after each commit."""

    graph: Path

    @initialize()
    def copy_graph(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name) / "graph"
        shutil.copytree(self.graph, self.root)
        self.session = open_session(self.root, runtime=Runtime.seeded(2))
        self.refs = {}
        self._remember()

    @rule(statements=MUTATION)
    def mutate(self, statements):
        text, params = _write(statements)
        try:
            self.session.mutate(text, params)
        except ConstraintViolationError:
            return
        self._remember()

    @rule()
    def index(self):
        build_indexes(self.session)
        self._remember()

    @rule()
    def compact(self):
        branch_writer = self.session.store.branch_writer(BranchName(MAIN))
        txn = branch_writer.begin(WriteKind.OPTIMIZE)
        for table_key in ("node:Person", "edge:Knows"):
            txn.change(Compaction(table_key=table_key))
        branch_writer.commit(txn)
        self._remember()

    @rule(supply=choices(200), when=st.integers(0, 50), mode=st.sampled_from(["indexed", "csr", "auto"]))
    def ask(self, supply, when, mode):
        commits = list(self.refs)
        read = write_read(supply, READ_SCHEMA)
        self._check(self.session, commits[-1 - when % len(commits)], read, mode)

    @rule(supply=choices(200))
    def ask_the_head(self, supply):
        self._check(self.session, None, write_read(supply, READ_SCHEMA), "auto")

    def teardown(self):
        if not hasattr(self, "session"):
            return
        self.session.close()
        with self.folder, open_session(self.root, mode="read_only", runtime=Runtime.seeded(3)) as session:
            for commit in self.refs:
                for text in WHOLE:
                    self._check(session, commit, Read(text=text, parameters={}, kinds={}), "auto")

    def _remember(self):
        self.refs[commit_ids(self.session)[0]] = oracle_graph(self.session, READ_SCHEMA)

    def _check(self, session, commit, read, mode):
        then = self.refs[commit] if commit is not None else list(self.refs.values())[-1]
        (decl,) = parse_queries(read.text).queries
        answer = evaluate(decl, READ_SCHEMA, then, read.parameters, NOW_MS)
        params = {name: to_text(value, read.kinds[name]) for name, value in read.parameters.items()}
        at = None if commit is None else str(commit)
        result = session.query(read.text, params, at=at, options=QueryOptions(mode=mode))
        problem = disagreement(answer, result.to_arrow())
        assert problem is None, f"{read.text}\nparameters {params}, at {at}, {mode}\n{problem}"
