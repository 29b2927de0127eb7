"""Differences, feed, pages and blame agree with a dictionary that remembers every commit."""

from __future__ import annotations

import copy
import datetime as dt
import os
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from omnigraph.history.diff.compare import diff_between
from omnigraph.history.feed.blame import blame
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.feed.tokens import PageLimits
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, BranchName
from tests.history_graph import (
    FILE,
    KNOWS,
    PERSON,
    SCHEMAS,
    compact,
    create,
    exported,
    index,
    open_store,
    read_rows,
    replace_all,
    write,
)

pytestmark = pytest.mark.more

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
IDS = st.sampled_from(["a", "b", "c", "é", "x" * 300, "x" * 300 + "y"])
MAYBE = st.sampled_from([None, 0, 1, 2])
ROWS = {
    PERSON: st.fixed_dictionaries(
        {
            "age": MAYBE,
            "weight": st.sampled_from([None, 0.0, -0.0, 1.5]),
            "tags": st.sampled_from([None, [], ["a", "b"], ["a, b"], [""]]),
            "born": st.sampled_from([None, dt.date(1970, 1, 2), dt.date(1969, 12, 31)]),
        }
    ),
    FILE: st.fixed_dictionaries({"content": st.sampled_from([None, b"", b"one", b"two", b"x" * 200]), "size": MAYBE}),
    KNOWS: st.fixed_dictionaries({"src": IDS, "dst": IDS, "since": MAYBE}),
}
SEED = {
    PERSON: {name: {"age": 1, "weight": 0.0, "tags": ["a", "b"], "born": None} for name in "abcde"},
    FILE: {name: {"content": b"one", "size": 1} for name in "abcde"},
    KNOWS: {name: {"src": name, "dst": "a", "since": 1} for name in "abcde"},
}
TABLES = st.sampled_from(list(SCHEMAS))
BRANCHES = st.sampled_from([MAIN, "one", "two"])


def _rows(table_key, *, with_deletes):
    row = ROWS[table_key]
    return st.tuples(
        st.just(table_key), st.dictionaries(IDS, row | st.none() if with_deletes else row, min_size=1, max_size=3)
    )


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), BRANCHES, TABLES.flatmap(lambda key: _rows(key, with_deletes=True))),
        st.tuples(st.just("write"), BRANCHES, TABLES.flatmap(lambda key: _rows(key, with_deletes=True))),
        st.tuples(st.just("replace"), BRANCHES, TABLES.flatmap(lambda key: _rows(key, with_deletes=False))),
        st.tuples(st.just("compact"), BRANCHES, TABLES),
        st.tuples(st.just("index"), BRANCHES, TABLES),
        st.tuples(st.just("branch"), BRANCHES, BRANCHES),
    ),
    min_size=4,
    max_size=14,
)


class Runtime:
    """The graph, and the model beside it."""

    def __init__(self, store):
        self.store = store
        self.heads = {MAIN: {key: {} for key in SCHEMAS}}
        self.states = {str(store.snapshot(BranchName(MAIN)).state.head.commit): self.heads[MAIN]}
        self.line = {MAIN: list(self.states)}
        self._committed(MAIN, write(store, SEED), SEED)

    def run(self, step):
        kind, branch, what = step
        if branch not in self.heads:
            branch = MAIN
        if kind == "branch":
            self._fork(branch, what)
            return
        after = copy.deepcopy(self.heads[branch])
        match kind:
            case "write":
                table_key, rows = what
                commit = write(self.store, {table_key: rows}, branch=branch, actor=f"writer of {branch}")
                for chosen, row in rows.items():
                    after[table_key].pop(chosen, None)
                    if row is not None:
                        after[table_key][chosen] = row
            case "replace":
                table_key, rows = what
                commit = replace_all(self.store, table_key, rows, branch=branch)
                after[table_key] = dict(rows)
            case "compact":
                commit = compact(self.store, what, branch=branch)
            case _:
                commit = index(self.store, what, branch=branch)
        self._committed(branch, commit, after)

    def _committed(self, branch, commit, after):
        if commit is not None:
            self.heads[branch] = after
            self.states[str(commit.id)] = after
            self.line[branch].append(str(commit.id))

    def _fork(self, source, name):
        if name not in self.heads:
            self.store.create_branch(BranchName(name), source=BranchName(source))
            self.heads[name] = self.heads[source]
            self.line[name] = list(self.line[source])


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("history") / "graph"
    create(root)
    return root


def _example(check):
    return settings(
        max_examples=150 if LONG else 6,
        deadline=None,
        phases=list(Phase) if LONG else [Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )(check)


@pytest.mark.timeout(1800 if LONG else 600)
@_example
@given(steps=STEPS, data=st.data())
def test_any_two_commits_differ_by_exactly_what_the_model_says(template, steps, data):
    with _world(template, steps) as runtime:
        commits = list(runtime.states)
        for _ in range(6):
            before, after = data.draw(st.sampled_from(commits)), data.draw(st.sampled_from(commits))
            forth, back = diff_between(runtime.store, before, after), diff_between(runtime.store, after, before)
            expected = model_diff(runtime.states[before], runtime.states[after])
            assert facts(forth) == expected
            mirrored = {(c.type.name, c.id): c for c in back}
            assert len(mirrored) == len(expected)
            for change in forth:
                other = mirrored[change.type.name, change.id]
                assert (change.before, change.after, change.changed) == (other.after, other.before, other.changed)
            stats = forth.stats()
            ops = [op for op, *_ in expected.values()]
            assert (stats.inserts, stats.updates, stats.deletes) == tuple(
                ops.count(op) for op in ("insert", "update", "delete")
            )


@pytest.mark.timeout(1800 if LONG else 600)
@_example
@given(steps=STEPS, limit=st.integers(1, 7), size=st.sampled_from([1, 700, 4 << 20]), commits=st.integers(1, 9))
def test_the_feed_replayed_into_nothing_gives_the_source_at_every_commit(template, steps, limit, size, commits):
    with _world(template, steps) as runtime:
        limits = PageLimits(changes=limit, size_bytes=size, commits=commits)
        for branch, line in runtime.line.items():
            rows = {key: {} for key in SCHEMAS}
            blocks = drain(ChangeReader(runtime.store), branch, limits)
            assert [commit for commit, _ in blocks] == line[1:]
            for commit, changes in blocks:
                for change in changes:
                    replay(rows, change)
                assert rows == {key: shown(table) for key, table in runtime.states[commit].items()}
                assert changes == commit_pages(ChangeReader(runtime.store), commit, limits)
            assert blocks == drain(ChangeReader(runtime.store), branch, PageLimits())


@pytest.mark.timeout(1800 if LONG else 600)
@_example
@given(steps=STEPS)
def test_blame_names_every_commit_that_changed_an_entity_and_no_other(template, steps):
    with _world(template, steps) as runtime:
        for branch, line in runtime.line.items():
            for table_key in SCHEMAS:
                ids = {chosen for commit in line for chosen in runtime.states[commit][table_key]}
                for chosen in sorted(ids)[:3]:
                    expected = [
                        (after, *changed)
                        for before, after in pairwise(line)
                        if (changed := _of(runtime.states, before, after, table_key, chosen)) is not None
                    ]
                    found = blame(runtime.store, table_key, chosen, branch=branch, limit=100)
                    assert found.is_complete
                    assert [
                        (str(event.cause.commit.id), event.op, set(event.changed)) for event in reversed(found.events)
                    ] == expected


def _of(states, before, after, table_key, chosen):
    found = model_diff(states[before], states[after]).get((table_key.partition(":")[2], chosen))
    if found is None:
        return None
    op, _, _, changed = found
    if op == "update":
        return op, set(changed)
    row = states[after if op == "insert" else before][table_key][chosen]
    names = {"src": "from", "dst": "to"}
    return op, {names.get(name, name) for name, value in row.items() if value is not None}


class _world:  # noqa: N801 - read as a phrase
    def __init__(self, template, steps):
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name) / "graph"
        shutil.copytree(template, root)
        with open_store(Storage.open(str(root))) as writer:
            self.runtime = Runtime(writer)
            for step in steps:
                self.runtime.run(step)
        # A writer has in memory what it wrote; another process has to read it.
        self.store = self.runtime.store = open_store(Storage.open(str(root)), mode="read_only")

    def __enter__(self):
        for branch, rows in self.runtime.heads.items():
            assert same(read_rows(self.store.snapshot(BranchName(branch))), rows)
        return self.runtime

    def __exit__(self, *_):
        self.store.close()
        self.folder.cleanup()


def same(one, other):
    return {k: {i: bits(r) for i, r in t.items()} for k, t in one.items()} == {
        k: {i: bits(r) for i, r in t.items()} for k, t in other.items()
    }


def bits(row):
    """A row such that 0.0 and -0.0 are told apart."""
    return {name: repr(value) for name, value in row.items()}


def shown(table):
    return {
        chosen: (exported(row), {"from": row["src"], "to": row["dst"]} if "src" in row else None)
        for chosen, row in table.items()
    }


def model_diff(before, after):
    """Changes by type and id: what happened, both images, and which properties differ."""
    found = {}
    names = {"src": "from", "dst": "to"}
    for table_key in SCHEMAS:
        old, new = before[table_key], after[table_key]
        for chosen in old.keys() | new.keys():
            was, will = old.get(chosen), new.get(chosen)
            if was is not None and will is not None and bits(was) == bits(will):
                continue
            op = "insert" if was is None else "delete" if will is None else "update"
            changed = (
                [names.get(n, n) for n in SCHEMAS[table_key].names if n != "id" and bits(was)[n] != bits(will)[n]]
                if op == "update"
                else []
            )
            images = tuple(None if row is None else shown({chosen: row})[chosen] for row in (was, will))
            found[table_key.partition(":")[2], chosen] = (op, *images, changed)
    return found


def facts(changes):
    found = {}
    for change in changes:
        key = (change.type.name, change.id)
        assert key not in found
        images = [_image(image) for image in (change.before, change.after)]
        found[key] = (change.op, *images, list(change.changed))
    return found


def _image(image):
    if image is None:
        return None
    return dict(image.properties), None if image.endpoints is None else image.endpoints.to_json()


def replay(rows, change):
    table = rows[f"{change['kind']}:{change['type']['name']}"]
    assert (change["op"] == "insert") == (change["id"] not in table)
    if "before" in change:
        assert table.pop(change["id"]) == _json_image(change["before"])
    if "after" in change:
        table[change["id"]] = _json_image(change["after"])


def _json_image(image):
    return image["properties"], image.get("endpoints")


def drain(reader, branch, limits):
    """Every block of a branch from its beginning, parts of one commit joined."""
    blocks, where = [], {"start": "beginning"}
    while True:
        page = reader.poll(branch, limits=limits, **where)
        assert sum(len(block.changes) for block in page.blocks) <= limits.changes
        for number, block in enumerate(page.to_json()["blocks"]):
            commit = block["cause"]["graph_commit_id"]
            if number == 0 and "page_token" in where:
                assert blocks[-1][0] == commit
                blocks[-1][1].extend(block["changes"])
            else:
                blocks.append((commit, block["changes"]))
        if page.next_page_token is not None:
            where = {"page_token": page.next_page_token}
        elif page.is_caught_up:
            return blocks
        else:
            where = {"cursor": page.cursor}


def commit_pages(reader, commit, limits):
    """All changes of one commit, page after page."""
    found, token = [], None
    while True:
        page = reader.commit_changes(commit, limits=limits, page_token=token)
        found += page.to_json()["changes"]
        token = page.next_page_token
        if token is None:
            return found
