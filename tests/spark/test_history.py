"""Merges, reverts and differences whose rows tasks compare: equal to those of one process in everything they say."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from omnigraph.errors import ExpectedVersionMismatchError, OmnigraphError
from omnigraph.operations.history import DiffRequest, MergeRequest, PreviewMergeRequest, RevertRequest
from omnigraph.spark.history.operations import ExecutorBackend
from omnigraph.spark.history.ranges import SparkHistorySettings
from omnigraph.spark.runner import InProcessRunner, SparkRunner
from omnigraph.store.scratch import SCRATCH_PREFIX
from omnigraph.values import BranchName
from tests.merge_graph import Template, put, put_together
from tests.session_graph import open_session, read_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
PERSON, KNOWS = "node:Person", "edge:Knows"
SCHEMA = """
node Person { name: String? @unique  tags: [String]?  photo: Blob?  place: Vector(2)? }
edge Knows: Person -> Person @card(0..40) { note: String? }
"""
NAMES = [f"{start}{number}" for start in ("a", "é", "Z", "0'") for number in range(8)]
# Every range holds a row or two, and every task a fragment.
TINY = SparkHistorySettings(memory_bytes=1, whole_rows=0, read_rows=1, write_rows=3, fragment_rows=2)
SMALL = SparkHistorySettings(memory_bytes=20_000, whole_rows=0, read_rows=20)


def _person(choose, name, *, is_sound):
    names = [None, f"{name} {choose.randint(0, 1)}"]
    return {
        # Two branches may give one name to two people.
        "name": choose.choice(names if is_sound else [*names, "taken"]),
        "tags": choose.choice([None, [], ["x"]]),
        "photo": choose.choice([None, b"\x00" * 50]),
        "place": choose.choice([None, [0.5, 1.0]]),
    }


def _people(choose, most, *, is_sound):
    names = choose.sample(NAMES, choose.randint(1, most))
    return {name: None if choose.random() < 0.25 else _person(choose, name, is_sound=is_sound) for name in names}


def _edges(choose, most, *, is_sound):
    ends = ["anchor"] if is_sound else ["anchor", *NAMES[:4]]
    return {
        name: None
        if choose.random() < 0.25
        else {"src": choose.choice(ends), "dst": choose.choice(ends), "note": choose.choice([None, "x", "y"])}
        for name in choose.sample(NAMES, choose.randint(1, most))
    }


def _grow(session, choose, *, is_sound):
    """Write a random history on two branches; nothing is checked, so that a merge may find rules broken."""
    for most in (len(NAMES), 10):
        put(session, PERSON, _people(choose, most, is_sound=is_sound))
        put(session, KNOWS, _edges(choose, most, is_sound=is_sound))
    session.store.create_branch(BranchName("draft"))
    for branch in ("draft", "main", "draft"):
        put(session, PERSON, _people(choose, 12, is_sound=is_sound), branch)
        put(session, KNOWS, _edges(choose, 12, is_sound=is_sound), branch)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    seed = '{"type": "Person", "data": {"id": "anchor"}}'
    return Template(tmp_path_factory.mktemp("history"), SCHEMA, seed, branches=())


def answer(backend, request):
    """What a request is answered with, as values: a result or an error."""
    try:
        found = backend.execute(request)
    except OmnigraphError as error:
        return type(error).__name__, error.message, error.to_json()
    document = found.to_json()
    # Only what two runs cannot have in common is left out.
    return {name: value for name, value in document.items() if name not in {"graph_commit_id", "target_commit_id"}}


def states(session):
    """The rows of both branches, and how many rows each table says to have."""
    counts = {key: entry.row_count for key, entry in session.snapshot().state.tables.items()}
    return [read_graph(session, branch) for branch in ("main", "draft")], counts


class Twins:
    """One graph in two copies: requests run in this process on one of them, in tasks on the other."""

    def __init__(self, folder, session, runner, settings):
        session.close()
        self._folder = folder
        shutil.copytree(session.store.storage.root, folder / "twin")
        self.here = open_session(session.store.storage.root)
        self.there = open_session(folder / "twin")
        self.backends = (
            self.here.backend,
            ExecutorBackend(self.there.backend, settings=settings, runner=runner),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.here.close()
        self.there.close()
        assert [path for path in (self._folder / "twin" / SCRATCH_PREFIX).rglob("*") if path.is_file()] == []

    def ask(self, request):
        """Return the answer of both, which is one."""
        here, there = (answer(backend, request) for backend in self.backends)
        assert there == here
        return here

    def expect_equal_states(self):
        """Both copies hold the same."""
        assert states(self.there) == states(self.here)


def previews(twins, choose):
    """Compare and look at the merge on both; return decisions for some of its conflicts."""
    for request in (
        DiffRequest(before="main", after="draft"),
        DiffRequest(before="draft", after="main", ops=("update",), types=("Person",)),
        DiffRequest(before="main~1", after="main", ids=tuple(NAMES[:3])),
    ):
        twins.ask(request)
    assert len(twins.ask(PreviewMergeRequest(source="draft", max_conflicts=2))["conflicts"]) <= 2
    seen = twins.ask(PreviewMergeRequest(source="draft"))
    rows = [row for row in seen["conflict_rows"] if row["kind"] in {"divergent_update", "delete_vs_update"}]
    decided = [{**row, "resolution": choose.choice(["ours", "theirs"])} for row in rows if choose.random() < 0.5]
    stray = {"type": "Person", "id": "anchor", "resolution": "ours"}
    assert twins.ask(PreviewMergeRequest(source="draft", decisions=[*decided, stray]))[0] == "MergeDecisionError"
    return decided


@pytest.mark.parametrize("seed", range(30 if LONG else 3))
def test_tasks_merge_and_compare_random_histories_as_one_process_does(template, seed, tmp_path):
    choose = random.Random(seed)  # noqa: S311 - no secret
    session, is_sound = template.open(), seed % 3 != 1
    _grow(session, choose, is_sound=is_sound)
    with Twins(tmp_path, session, InProcessRunner(), SMALL if seed % 3 == 2 else TINY) as twins:
        decided = previews(twins, choose)
        twins.ask(MergeRequest(source="draft", decisions=decided))
        found = twins.ask(MergeRequest(source="draft", decisions=decided, resolve=choose.choice(["ours", "theirs"])))
        if is_sound:
            assert found["outcome"] in {"merged", "already_up_to_date"}
        twins.expect_equal_states()
        # Main is taken over by a branch that has tables of its own.
        twins.ask(MergeRequest(source="main", target="draft", resolve="theirs"))
        twins.expect_equal_states()


@pytest.mark.core
def test_executors_merge_and_compare_as_one_process_does(spark, template, tmp_path):
    choose = random.Random(5)  # noqa: S311 - no secret
    session = template.open()
    _grow(session, choose, is_sound=True)
    with Twins(tmp_path, session, SparkRunner(spark=spark), SMALL) as twins:
        assert twins.ask(DiffRequest(before="main", after="draft"))["changes"]
        assert twins.ask(MergeRequest(source="draft"))[0] == "MergeConflictsError"
        assert twins.ask(MergeRequest(source="draft", resolve="theirs"))["outcome"] == "merged"
        twins.expect_equal_states()


RENAMED = SCHEMA.replace("name: String? @unique", 'title: String? @unique @rename_from("name")  age: I32?')
NEWER = RENAMED + "node City { size: I32? }"


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A graph whose branch has another schema and rows of it, and whose main went on."""
    seed = '{"type": "Person", "data": {"id": "anchor"}}'
    made = Template(tmp_path_factory.mktemp("changed"), SCHEMA, seed, branches=("draft", "idle"))
    with open_session(made.original) as session:
        rest = dict.fromkeys(("tags", "photo", "place"))
        put(session, PERSON, {name: {"name": name, **rest} for name in NAMES[:6]})
        session.store.create_branch(BranchName("later"))
        session.apply_schema(NEWER, branch="draft")
        put(session, PERSON, {name: {"title": name, "age": 3, **rest} for name in NAMES[6:12]}, "draft")
        put(session, "node:City", {name: {"size": 1} for name in NAMES[:5]}, "draft")
        put(session, KNOWS, {"k": {"src": NAMES[7], "dst": NAMES[8], "note": None}}, "draft")
        put(session, PERSON, {NAMES[0]: None, NAMES[1]: {"name": "other", **rest}})
    return made


def test_a_merge_that_changes_the_schema_is_the_same_in_tasks(changed, tmp_path):
    with Twins(tmp_path, changed.open(), InProcessRunner(), TINY) as twins:
        twins.ask(DiffRequest(before="main", after="draft"))
        twins.ask(DiffRequest(before="draft", after="main"))
        found = twins.ask(MergeRequest(source="draft"))
        assert {table["type_name"]: table["inserted"] for table in found["tables"]} == {
            "City": 5,
            "Knows": 1,
            "Person": 6,
        }
        twins.expect_equal_states()


def test_a_branch_that_wrote_nothing_takes_over_the_tables_of_main(changed, tmp_path):
    with Twins(tmp_path, changed.open(), InProcessRunner(), TINY) as twins:
        assert twins.ask(MergeRequest(source="main", target="idle"))["outcome"] == "fast_forward"
        here, there = (twin.snapshot("idle").state.tables[PERSON] for twin in (twins.here, twins.there))
        assert (here.pin.branch, there.pin.branch) == (None, None)
        assert read_graph(twins.there, "idle") == read_graph(twins.here, "idle") == read_graph(twins.here)
        assert twins.ask(MergeRequest(source="main", target="idle"))["outcome"] == "already_up_to_date"


def test_a_revert_and_its_conflicts_are_the_same_in_tasks(changed, tmp_path):
    with Twins(tmp_path, changed.open(), InProcessRunner(), TINY) as twins:
        head = twins.here.snapshot().state.head.commit
        put_both = {NAMES[1]: {"name": "again", "tags": None, "photo": None, "place": None}}
        for twin in (twins.here, twins.there):
            put(twin, PERSON, put_both)
        assert twins.ask(RevertRequest(commit=head))[0] == "MergeConflictsError"
        found = twins.ask(RevertRequest(commit=head, resolve="theirs"))
        assert (found["tables"][0]["inserted"], found["tables"][0]["updated"]) == (1, 1)
        twins.expect_equal_states()


@pytest.mark.parametrize("actor", ["ann", "bo"])
def test_a_revert_of_a_commit_that_shares_its_version_is_the_same_in_tasks(changed, tmp_path, actor):
    def rows(*names):
        return {PERSON: {name: {"name": None, "tags": ["x"], "photo": None, "place": None} for name in names}}

    with Twins(tmp_path, changed.open(), InProcessRunner(), TINY) as twins:
        # A commit has an id of its own in each of them; the largest commit names no row.
        made = [
            put_together(twin, {"ann": rows(*NAMES[:3]), "bo": rows(*NAMES[3:12])})
            for twin in (twins.here, twins.there)
        ]
        found = [
            backend.execute(RevertRequest(commit=commits[actor].id)).tables
            for backend, commits in zip(twins.backends, made, strict=True)
        ]
        assert found[0] == found[1]
        assert sum(table.inserted + table.updated + table.deleted for table in found[0]) > 0
        twins.expect_equal_states()


def test_a_merge_is_refused_when_its_target_moves_and_leaves_nothing_behind(template):
    choose = random.Random(5)  # noqa: S311 - no secret
    with template.open() as session:
        _grow(session, choose, is_sound=True)
        files = sorted(_data_files(session))
        runner = WritingBeside(lambda: put(session, PERSON, {"late": _person(choose, "late", is_sound=True)}))
        backend = ExecutorBackend(session.backend, settings=SMALL, runner=runner)
        with pytest.raises(ExpectedVersionMismatchError):
            backend.execute(MergeRequest(source="draft", resolve="theirs"))
        assert "late" in read_graph(session)[PERSON]
        left = set(_data_files(session)).difference(files)
        # What the late row wrote, and nothing of the merge.
        assert len(left) == 1
        assert backend.execute(MergeRequest(source="draft", resolve="theirs")).commit is not None


class WritingBeside(InProcessRunner):
    """Runs tasks right here, with a write of another client once the rows of a merge are written."""

    def __init__(self, write):
        self._write = write

    def run(self, function, tasks, doing):
        found = super().run(function, tasks, doing)
        if doing == "write the merged rows" and self._write is not None:
            self._write()
            self._write = None
        return found


def _data_files(session):
    return [str(path) for path in Path(session.store.storage.root).rglob("*.lance") if "nodes" in path.parts]
