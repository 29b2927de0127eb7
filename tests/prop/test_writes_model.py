"""Random mutations, batches and loads in turn, against dictionaries: the same graphs, counts, commits and errors."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from omnigraph.errors import OmnigraphError
from tests.load_graph import load_lines
from tests.prop import model_writes as model
from tests.prop.model_mutations import OPS, Delete, Insert, Update
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
# Mostly right, so that most writes go through.
_names = st.sampled_from(["a", "a", "a", "b", "b", "b", "c", "c", "c", "d"])
_notes = st.sampled_from(["n1", "n1", "n1", "n2", "n2", "n2", "n3"])
_numbers = st.sampled_from([None, 0, 1, 2, 3, 4, 5, 6, 7, 40])
_values = {
    "name": _names,
    "city": st.sampled_from(["x", "x", "x", "x", "y", "y", "y", "y", "y", "Z"]),
    "age": _numbers,
    "email": st.sampled_from([None, None, None, None, "e1", "e2", "e3"]),
    "mood": st.sampled_from([None, None, None, "glad", "glad", "sad", "sad", "sad", "cross"]),
    "first": st.sampled_from([None, "f", "g"]),
    "last": st.sampled_from([None, "l", "m"]),
    "text": st.sampled_from([None, "s", "t"]),
    "n": _numbers,
}
_kinds = st.sampled_from(["Person", "Person", "Person", "Note", "Knows", "Likes", "Pins"])
_compared = st.sampled_from(sorted(OPS))
_TYPES = {"age": "I32", "n": "I32"}


@st.composite
def _row(draw, kind, *, is_whole=False):
    """Values of one entity; what is not required is left out at times."""
    wanted = ("src", "dst", *model.PROPERTIES[kind]) if kind in model.ENDS else model.PROPERTIES[kind]
    row = {}
    for name in wanted:
        if name in {"src", "dst"}:
            is_note = name == "dst" and model.ENDS[kind][1] == "Note"
            row[name] = draw(_notes if is_note else _names)
        elif is_whole or name in model.REQUIRED or draw(st.booleans()):
            row[name] = draw(_values[name])
    if row and draw(st.integers(0, 24)) == 0:
        row[draw(st.sampled_from(sorted(row)))] = None
    # A statement assigns at least one property.
    return row or {"n": None}


@st.composite
def _inserts(draw):
    kind = draw(_kinds)
    return Insert(kind, draw(_row(kind)))


@st.composite
def _updates(draw):
    kind = draw(st.sampled_from(["Person", "Person", "Note"]))
    columns = [name for name in model.PROPERTIES[kind] if name != "name"]
    chosen = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique=True))
    column = draw(st.sampled_from(model.PROPERTIES[kind]))
    return Update(kind, {name: draw(_values[name]) for name in chosen}, column, draw(_compared), draw(_values[column]))


@st.composite
def _deletes(draw):
    kind = draw(_kinds)
    column = draw(st.sampled_from(["n", "from", "to"] if kind in model.ENDS else sorted(model.PROPERTIES[kind])))
    is_note = column == "to" and kind in model.ENDS and model.ENDS[kind][1] == "Note"
    value = draw(_notes if is_note else _values.get(column, _names))
    return Delete(kind, column, draw(_compared), value)


_mutations = st.one_of(
    st.lists(st.one_of(_inserts(), _inserts(), _updates(), _deletes()), min_size=1, max_size=5),
    # Long enough to be made in columns.
    st.lists(_inserts(), min_size=8, max_size=12),
)


@st.composite
def _batches(draw):
    """Calls of one text: the same statements with other values."""
    kinds = draw(st.lists(_kinds, min_size=1, max_size=2))
    deletes = draw(st.booleans()) and draw(st.booleans())
    calls = []
    for _ in range(draw(st.integers(0, 12))):
        call = [Insert(kind, draw(_row(kind, is_whole=True))) for kind in kinds]
        calls.append([*call, Delete("Person", "name", "=", draw(_names))] if deletes else call)
    return calls


@st.composite
def _envelopes(draw):
    kind = draw(_kinds)
    row = draw(_row(kind))
    data = {name: value for name, value in row.items() if name not in {"src", "dst"} and value is not None}
    flaw = draw(st.integers(0, 24))
    if flaw == 0 and data:
        del data[draw(st.sampled_from(sorted(data)))]
    elif flaw == 1:
        data["age" if kind == "Person" else "n"] = draw(st.sampled_from(["7", 1.5, True]))
        data |= {name: "a" for name in ("name", "city") if kind == "Person" and name not in data}
    if kind in model.MADE and draw(st.booleans()):
        data["id"] = draw(_notes if kind == "Note" else st.sampled_from(["k1", "k2", "k3"]))
    if kind not in model.ENDS:
        return {"type": kind, "data": data}
    return {"edge": kind, "from": row["src"] or "a", "to": row["dst"] or "n1", "data": data}


_modes = st.sampled_from(["append", "append", "merge", "merge", "overwrite", "patch"])


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("model") / "graph"
    create_graph(root, model.SCHEMA, model.SEED)
    return root


@pytest.mark.more
@pytest.mark.timeout(1800 if LONG else 600)
def test_random_writes_do_what_dictionaries_do(template):
    class Machine(WriteMachine):
        graph = template

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=400 if LONG else 8,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


class WriteMachine(RuleBasedStateMachine):
    """One graph and its model, both run through the same writes."""

    graph: Path

    @initialize()
    def copy_graph(self):
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name) / "graph"
        shutil.copytree(self.graph, root)
        self.session = open_session(root)
        self.tables = self._read()

    @rule(statements=_mutations)
    def mutate(self, statements):
        text, params = _write([statements])
        done = self._expect(model.mutate(self.tables, statements), lambda: self.session.mutate(text, params[0]))
        self._expect_counts(done, model.mutate(self.tables, statements))
        self._settle(done)

    @rule(calls=_batches())
    def mutate_batch(self, calls):
        text, params = _write(calls) if calls else ("query q() { insert Note { n: 1 } }", [])
        expected = model.mutate(self.tables, [statement for call in calls for statement in call])
        done = self._expect(expected, lambda: self.session.mutate_batch(text, params))
        self._expect_counts(done, expected)
        self._settle(done)

    @rule(mode=_modes, rows=st.lists(_envelopes(), max_size=8))
    def load(self, mode, rows):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        word, path = "merge" if mode == "patch" else mode, Path(self.folder.name) / "rows.jsonl"
        expected = model.load(self.tables, mode, rows)
        done = self._expect(expected, lambda: load_lines(self.session, path, lines, word, patch=mode == "patch"))
        self._settle(done)

    def teardown(self):
        if hasattr(self, "session"):
            self.session.close()
            with open_session(Path(self.folder.name) / "graph") as session:
                assert _by_name(read_graph(session)) == self.tables
            self.folder.cleanup()

    def _expect(self, expected, write):
        """Run a write and compare it with what the model expects; return its result, None when it was refused."""
        event(f"refused: {None if expected.refusal is None else expected.refusal.code}")
        commits = len(commit_ids(self.session))
        done, error = _attempt(write)
        if expected.refusal is not None:
            _compare(error, expected.refusal)
            assert self._read() == self.tables
            assert len(commit_ids(self.session)) == commits
            return None
        assert error is None, error
        assert (done.commit is not None) == expected.has_commit
        assert len(commit_ids(self.session)) - commits == expected.has_commit
        assert _named(self._read(), self.tables) == _named(expected.tables, self.tables)
        return done

    def _expect_counts(self, done, expected):
        if done is not None:
            assert (done.affected_nodes, done.affected_edges) == (expected.nodes, expected.edges)

    def _settle(self, done):
        # Ids that were made up are told by the graph; everything else about the rows was the model's word.
        if done is not None:
            self.tables = self._read()

    def _read(self):
        return _by_name(read_graph(self.session))


def _attempt(write):
    try:
        return write(), None
    except OmnigraphError as error:
        return None, error


def _compare(error, refusal):
    assert error is not None, refusal
    assert error.code == refusal.code, error
    if error.code == "constraint.violated":
        found = Counter((item.rule, item.type_name, item.property, item.value) for item in error.details.items)
        assert found == refusal.broken
        assert error.details.total == refusal.broken.total()
        assert error.message == error.details.items[0].message
    elif error.code == "load.bad_rows":
        found = Counter((item.rule, item.type_name, item.property, item.line) for item in error.details.items)
        assert found == refusal.broken
    elif error.code == "storage.key_exists":
        kind = error.details.location.partition(":")[2]
        assert set(error.details.ids) == refusal.taken[kind]


def _by_name(graph):
    return {key.partition(":")[2]: rows for key, rows in graph.items()}


def _named(tables, before):
    """Rows by id, those with an id that may have been made up by their values alone."""
    named = {}
    for kind, rows in tables.items():
        known = {key: row for key, row in rows.items() if kind not in model.MADE or key in before[kind]}
        fresh = sorted(json.dumps(row, sort_keys=True) for key, row in rows.items() if key not in known)
        named[kind] = (known, fresh)
    return named


def _write(calls):
    """The text that all calls share, and the parameters of each; every value is one, so that NULL can be."""
    texts, params = set(), []
    for statements in calls:
        given, lines = {}, []

        def use(column, value, given=given):
            given[f"p{len(given)}"] = (value, _TYPES.get(column, "String"))
            return f"$p{len(given) - 1}"

        lines.extend(_line(statement, use) for statement in statements)
        declared = ", ".join(f"${name}: {kind}?" for name, (_, kind) in given.items())
        texts.add(f"query q({declared}) {{\n    " + "\n    ".join(lines) + "\n}")
        params.append({name: value for name, (value, _) in given.items()})
    (text,) = texts
    return text, params


def _line(statement, use):
    written = {"src": "from", "dst": "to"}
    if isinstance(statement, Delete):
        return (
            f"delete {statement.type} where {statement.column} {statement.op} {use(statement.column, statement.value)}"
        )
    pairs = ", ".join(f"{written.get(name, name)}: {use(name, value)}" for name, value in statement.values.items())
    if isinstance(statement, Insert):
        return f"insert {statement.type} {{ {pairs} }}"
    where = f"{statement.column} {statement.op} {use(statement.column, statement.value)}"
    return f"update {statement.type} set {{ {pairs} }} where {where}"  # noqa: S608 - no SQL
