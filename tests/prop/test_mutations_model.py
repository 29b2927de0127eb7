"""Random mutations against a plain-dictionary model: the same graphs, counts, commits and refusals."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from omnigraph.errors import ConstraintViolationError
from tests.prop.model_mutations import OPS, SCHEMA, SEED, Delete, Insert, Update, run_model
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
NAMES = st.sampled_from(["a", "b", "c", "d"])
NOTES = st.sampled_from(["n1", "n2", "n9"])
SMALL = st.integers(0, 3)
# Mostly within the range that the schema allows, so that most mutations go through.
AGE = st.one_of(SMALL, SMALL, st.none(), st.just(60))
MAYBE = st.one_of(st.none(), SMALL)
COMPARED = st.sampled_from(sorted(OPS))


def _person():
    return st.fixed_dictionaries({}, optional={"age": AGE, "rank": MAYBE})


INSERTS = st.one_of(
    st.builds(lambda name, row: Insert("Person", {"name": name, **row}), NAMES, _person()),
    st.builds(lambda text, n: Insert("Note", {"text": text, "n": n}), st.sampled_from("xy"), MAYBE),
    st.builds(lambda src, dst, w: Insert("Knows", {"src": src, "dst": dst, "w": w}), NAMES, NAMES, MAYBE),
    st.builds(lambda src, dst, w: Insert("Wrote", {"src": src, "dst": dst, "w": w}), NAMES, NOTES, MAYBE),
)
UPDATES = st.one_of(
    st.builds(
        lambda row, column, op, value: Update("Person", row, column, op, value),
        _person().filter(bool),
        st.sampled_from(["age", "rank"]),
        COMPARED,
        MAYBE,
    ),
    st.builds(lambda row, op, name: Update("Person", row, "name", op, name), _person().filter(bool), COMPARED, NAMES),
    st.builds(lambda n, op, value: Update("Note", {"n": n}, "n", op, value), MAYBE, COMPARED, MAYBE),
)
DELETES = st.one_of(
    st.builds(lambda op, name: Delete("Person", "name", op, name), COMPARED, NAMES),
    st.builds(lambda op, value: Delete("Person", "age", op, value), COMPARED, MAYBE),
    st.builds(lambda op, value: Delete("Note", "n", op, value), COMPARED, MAYBE),
    st.builds(lambda end, op, name: Delete("Knows", end, op, name), st.sampled_from(["from", "to"]), COMPARED, NAMES),
    st.builds(lambda kind, op, w: Delete(kind, "w", op, w), st.sampled_from(["Knows", "Wrote"]), COMPARED, MAYBE),
)
MUTATION = st.lists(st.one_of(INSERTS, INSERTS, UPDATES, DELETES), min_size=1, max_size=5)
_TYPES = {"name": "String", "text": "String", "src": "String", "dst": "String"}
_WRITTEN = {"src": "from", "dst": "to"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("model") / "graph"
    create_graph(root, SCHEMA, SEED)
    return root


@pytest.mark.timeout(1800 if LONG else 600)
def test_random_mutations_do_what_the_model_does(template):
    class Machine(MutationMachine):
        graph = template

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=300 if LONG else 8,
            stateful_step_count=8,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


class MutationMachine(RuleBasedStateMachine):
    """One graph and its model, both run through the same mutations."""

    graph: Path

    @initialize()
    def copy_graph(self):
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name) / "graph"
        shutil.copytree(self.graph, root)
        self.session = open_session(root)
        self.model = self._read()

    @rule(statements=MUTATION)
    def mutate(self, statements):
        expected = run_model(self.model, statements)
        event(f"broken rule: {expected.broken}")
        text, params = _write(statements)
        commits = len(commit_ids(self.session))
        if expected.broken is not None:
            with pytest.raises(ConstraintViolationError) as caught:
                self.session.mutate(text, params)
            assert caught.value.details.items[0].rule == expected.broken
            assert self._read() == self.model
            assert len(commit_ids(self.session)) == commits
            return
        done = self.session.mutate(text, params)
        assert (done.affected_nodes, done.affected_edges) == (expected.nodes, expected.edges)
        assert (done.commit is not None) == expected.has_commit
        assert len(commit_ids(self.session)) - commits == expected.has_commit
        found = self._read()
        assert _named(found, self.model) == _named(expected.tables, self.model)
        # Ids that were made up are told by the graph; everything else about the rows is the model's word.
        self.model = found

    def teardown(self):
        if hasattr(self, "session"):
            root = Path(self.folder.name) / "graph"
            self.session.close()
            with open_session(root) as session:
                assert {key.partition(":")[2]: rows for key, rows in read_graph(session).items()} == self.model
            self.folder.cleanup()

    def _read(self):
        return {key.partition(":")[2]: rows for key, rows in read_graph(self.session).items()}


def _named(tables, before):
    """Rows by id, those with an id that is made up here by their values alone."""
    named = {}
    for kind, rows in tables.items():
        is_made = kind in {"Note", "Knows"}
        known = {chosen: row for chosen, row in rows.items() if not is_made or chosen in before[kind]}
        fresh = sorted(json.dumps(row, sort_keys=True) for chosen, row in rows.items() if chosen not in known)
        named[kind] = (known, fresh)
    return named


def _write(statements):
    """The mutation as text; every value travels as a parameter, so that NULL can be one."""
    params, lines = {}, []

    def given(column, value):
        name = f"p{len(params)}"
        params[name] = (value, _TYPES.get(column, "I32"))
        return f"${name}"

    for statement in statements:
        if isinstance(statement, Delete):
            value = given(_WRITTEN_BACK.get(statement.column, statement.column), statement.value)
            lines.append(f"delete {statement.type} where {statement.column} {statement.op} {value}")
            continue
        pairs = ", ".join(
            f"{_WRITTEN.get(column, column)}: {given(column, value)}" for column, value in statement.values.items()
        )
        if isinstance(statement, Insert):
            lines.append(f"insert {statement.type} {{ {pairs} }}")
        else:
            value = given(statement.column, statement.value)
            where = f"{statement.column} {statement.op} {value}"
            lines.append(f"update {statement.type} set {{ {pairs} }} where {where}")  # noqa: S608 - no SQL
    declared = ", ".join(f"${name}: {kind}?" for name, (_, kind) in params.items())
    body = "\n    ".join(lines)
    return f"query q({declared}) {{\n    {body}\n}}", {name: value for name, (value, _) in params.items()}


_WRITTEN_BACK = {written: column for column, written in _WRITTEN.items()}
