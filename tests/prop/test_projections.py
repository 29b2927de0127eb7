"""No answer depends on projections, be there none, some, stale, damaged or all, on any branch and at any commit."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.engine.maintenance import projections
from omnigraph.engine.query.search.indexes import TextIndexes
from omnigraph.engine.query.topology import cache as topology
from omnigraph.errors import ConstraintViolationError, MergeConflictsError
from omnigraph.store.projections.files import PROJECTIONS_PREFIX, ProjectionStore
from omnigraph.store.tables import lookup

pytestmark = pytest.mark.more

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SCHEMA = """
node Person { slug: String @key  bio: String? @index  age: I32? }
node Note { slug: String @key  text: String @index }
edge Knows: Person -> Person { w: I32? }
edge Wrote: Person -> Note
"""
SLUGS = [f"p{number}" for number in range(5)]
WORDS = ["tea", "coffee", "teas", "green tea", ""]
QUERIES = [
    *(
        f'query q() {{ match {{ $p: Person {{ slug: "{slug}" }} }} return {{ $p.slug, $p.bio, $p.age }} }}'
        for slug in SLUGS
    ),
    *(
        f'query q() {{ match {{ $p: Person {{ slug: "{slug}" }}  $p $e:knows $f }} return {{ $f.slug, $e.w }} }}'
        for slug in SLUGS
    ),
    'query q() { match { $p: Person { slug: "p1" }  $p knows $f  $f knows $g } return { $g.slug } }',
    'query q() { match { $p: Person { slug: "p2" }  $f knows $p  $f wrote $n } return { $f.slug, $n.slug } }',
    'query q() { match { $p: Person { slug: "p0" }  $p knows{1,3} $g } return { $g.slug } }',
    "query q() { match { $a: Person  $a knows $b  $b knows $c  $c knows $a } return { $a.slug, $b.slug, $c.slug } }",
    "query q() { match { $a: Person  $a $e:knows $b } return { $b.age as age, count($e) as n } }",
    "query q() { match { $a: Person  $a wrote $n } return { $n.slug, count($a) as n } }",
    'query q() { match { $p: Person  search($p.bio, "tea") } return { $p.slug } }',
    'query q() { match { $n: Note  fuzzy($n.text, "tee", 1) } return { $n.slug } }',
    """query q() {
        match { $p: Person }
        return { $p.slug, bm25($p.bio, "green tea") as s } order { bm25($p.bio, "green tea") } limit 3
    }""",
]

MUTATIONS = {
    "person": "query m($a: String, $b: String) { insert Person { slug: $a, bio: $b, age: 3 } }",
    "note": "query m($a: String, $b: String) { insert Note { slug: $a, text: $b } }",
    "knows": "query m($a: String, $b: String) { insert Knows { from: $a, to: $b } }",
    "wrote": "query m($a: String, $b: String) { insert Wrote { from: $a, to: $b } }",
    "update": "query m($a: String, $b: String) { update Person set { bio: $b } where slug = $a }",
    "delete": "query m($a: String, $b: String) { delete Person where slug = $a }",
}
STEPS = st.one_of(
    st.tuples(st.just("person"), st.sampled_from(SLUGS), st.sampled_from(WORDS)),
    st.tuples(st.just("note"), st.sampled_from(["n0", "n1"]), st.sampled_from(WORDS)),
    st.tuples(st.just("knows"), st.sampled_from(SLUGS), st.sampled_from(SLUGS)),
    st.tuples(st.just("wrote"), st.sampled_from(SLUGS), st.sampled_from(["n0", "n1"])),
    st.tuples(st.just("update"), st.sampled_from(SLUGS), st.sampled_from(WORDS)),
    st.tuples(st.just("delete"), st.sampled_from(SLUGS), st.just("")),
    st.tuples(st.sampled_from(["branch", "switch", "merge", "optimize", "cleanup", "look"]), st.just(""), st.just("")),
    st.tuples(st.just("files"), st.sampled_from(["drop", "damage", "truncate", "drop some"]), st.just("")),
)


@pytest.fixture
def eager(monkeypatch):
    """However few rows there are, projections are built, kept and looked for."""
    make_eager(monkeypatch)


def make_eager(patch):
    patch.setattr(topology, "LEAST_EDGES", 0)
    patch.setattr(lookup, "_KEPT_ROWS", 0)
    patch.setitem(TextIndexes.__init__.__kwdefaults__, "saved_rows", 0)
    builders = [
        projections.adjacency_builder(one.build) if one.name == "adjacency" else one for one in projections.BUILDERS
    ]
    patch.setattr(projections, "BUILDERS", builders)


def open_graph(root, **options):
    return omnigraph.open(
        root, maintenance=omnigraph.MaintenanceSettings(auto_every=0, projection_rows=1, settle_s=0), **options
    )


def answers(state):
    return [sorted(map(repr, state.query(text))) for text in QUERIES]


class Run:
    """A graph, the branch that is written to, and what it has been at some commits."""

    def __init__(self, root):
        self.root = root
        self.graph = omnigraph.init(root, SCHEMA)
        self.graph.close()
        self.graph = open_graph(root)
        self.written = "main"

    @property
    def state(self):
        return self.graph if self.written == "main" else self.graph.branch(self.written)

    def step(self, kind, first, second):
        if kind in MUTATIONS:
            # What the schema refuses changes nothing.
            with suppress(ConstraintViolationError):
                self.state.mutate(MUTATIONS[kind], {"a": first, "b": second})
        elif kind == "files":
            meddle(self.root, first)
        elif kind != "look":
            getattr(self, kind)()

    def names(self):
        return sorted(branch.name for branch in self.graph.branches())

    def branch(self):
        if "side" not in self.names():
            self.graph.create_branch("side")

    def switch(self):
        names = self.names()
        self.written = names[(names.index(self.written) + 1) % len(names)]

    def merge(self):
        if "side" in self.names():
            with suppress(MergeConflictsError):
                self.graph.merge("side")

    def optimize(self):
        self.state.optimize()

    def cleanup(self):
        self.graph.cleanup(keep=6, dry_run=False)


def meddle(root, what):
    for number, path in enumerate(sorted((Path(root) / PROJECTIONS_PREFIX).rglob("*.arrays"))):
        data = path.read_bytes()
        if what == "drop" or (what == "drop some" and number % 2):
            path.unlink()
        elif what in {"damage", "truncate"}:
            # Beside and in place of the file: whoever has it mapped goes on with what it has.
            whole = bytearray(data)
            whole[len(whole) * 2 // 3] ^= 255
            staged = path.with_name("staged")
            staged.write_bytes(whole if what == "damage" else data[:-80])
            staged.replace(path)


def compare(run, patch):
    """Ask the graph that goes on, one that is opened now, and one that knows of no projection."""
    states = [("main", None)]
    states += [(branch.name, None) for branch in run.graph.branches() if branch.name != "main"]
    states += [("main", commit.id) for commit in list(islice(run.graph.log(), 4))[1::2]]
    found = {}
    with open_graph(run.root) as opened:
        for name, commit in states:
            found[name, commit] = [answers(at(graph, name, commit)) for graph in (run.graph, opened)]
    with patch.context() as nothing:
        nothing.setattr(ProjectionStore, "find", lambda *_, **__: ())
        nothing.setattr(ProjectionStore, "save", lambda *_, **__: None)
        with open_graph(run.root) as plain:
            for (name, commit), pair in found.items():
                expected = answers(at(plain, name, commit))
                for one in pair:
                    assert one == expected, (name, commit)


def at(graph, name, commit):
    state = graph if name == "main" else graph.branch(name)
    return state if commit is None else state.at(commit)


@settings(
    max_examples=200 if LONG else 12,
    deadline=None,
    derandomize=not LONG,
    phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if LONG else [])],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(st.lists(STEPS, min_size=8, max_size=24))
def test_answers_are_those_of_a_graph_without_projections(steps):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        make_eager(patch)
        run = Run(f"{folder}/g")
        try:
            for slug in SLUGS[:3]:
                run.step("person", slug, "green tea")
            run.step("knows", "p0", "p1")
            run.step("knows", "p1", "p2")
            run.step("optimize", "", "")
            for step in steps:
                run.step(*step)
                if step[0] == "look":
                    compare(run, patch)
            compare(run, patch)
        finally:
            run.graph.close()


def test_every_kind_of_projection_is_there(tmp_path, eager):
    """What the comparison above is about: with so few rows all of them are built, found and used."""
    run = Run(str(tmp_path / "g"))
    with run.graph:
        for slug in SLUGS:
            run.step("person", slug, "green tea")
        run.step("note", "n0", "tea")
        run.step("knows", "p0", "p1")
        run.step("wrote", "p0", "n0")
        run.step("optimize", "", "")
        kinds = {path.name.partition(".")[0] for path in (tmp_path / "g" / PROJECTIONS_PREFIX).rglob("*.arrays")}
        assert kinds == {"keys", "text", "adjacency-out", "adjacency-in"}
