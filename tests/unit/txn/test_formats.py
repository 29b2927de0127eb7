"""A graph says which format it is in; what cannot be served is refused, what is older stays so until it is migrated."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.formats import FORMAT_1, make_format, rewrite_head
from tests.txn_graph import PERSON, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.engine.maintenance.migrate import Migration
from omnigraph.errors import FormatUnsupportedError, ManifestCorruptError, ReadOnlyError
from omnigraph.txn.manifest.codec import FormatChain, decode_commits
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import BranchName, TagName
from omnigraph.values.formats import OLDEST_STORAGE_FORMAT, STORAGE_FORMAT

MAIN, FEATURE = BranchName("main"), BranchName("feature")


def _add_floor(rows):
    return rewrite_head(rows, lambda metadata: metadata.setdefault("floor", 0))


# A made-up format 0, whose head rows have no floor.
OLDER = FormatChain(oldest=0, newest=2, steps={0: _add_floor, 1: lambda rows: rows})


def _format_of(graph, branch=MAIN):
    return graph.snapshot(branch).manifest.format


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


def test_a_new_graph_has_the_newest_format(storage):
    assert (OLDEST_STORAGE_FORMAT, STORAGE_FORMAT) == (1, 2)
    with open_graph(storage) as graph:
        assert _format_of(graph) == 2


@pytest.mark.parametrize("mode", ["read_write", "read_only"])
@pytest.mark.parametrize(("stamp", "hint"), [("0", "export the graph"), ("3", "supports storage format 3")])
def test_a_format_outside_the_range_is_refused_in_both_modes(storage, mode, stamp, hint):
    make_format(storage, stamp)
    with pytest.raises(FormatUnsupportedError, match=f"storage format {stamp}; this version supports 1 to 2") as caught:
        open_graph(storage, mode=mode)
    assert hint in caught.value.hint
    assert (caught.value.details.found, caught.value.details.oldest, caught.value.details.newest) == (int(stamp), 1, 2)


def test_a_version_that_only_knows_format_1_refuses_a_new_graph_with_both_numbers(storage):
    with pytest.raises(FormatUnsupportedError, match="storage format 2; this version supports 1 to 1") as caught:
        open_graph(storage, formats=FORMAT_1)
    assert caught.value.hint == "upgrade omnigraph to a version that supports storage format 2"


def test_a_manifest_without_a_stamp_is_refused(storage):
    make_format(storage, None)
    with pytest.raises(ManifestCorruptError, match="no format stamp"):
        open_graph(storage)


def test_an_older_format_is_read_without_being_changed(storage):
    make_format(storage, "0", removes=("floor",))
    with open_graph(storage, mode="read_only", formats=OLDER) as graph:
        assert read_ids(graph, PERSON) == []
        assert _format_of(graph) == 0


def test_opening_and_writing_keep_the_format_that_a_graph_has(storage):
    make_format(storage, "1")
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["a"]))
        graph.create_branch(FEATURE)
        insert(graph, PERSON, node_rows(["b"]), branch=FEATURE)
        assert (_format_of(graph), _format_of(graph, FEATURE)) == (1, 1)
        assert [commit.operation for commit in history(graph)] == ["insert", "init"]
    with open_graph(storage, formats=FORMAT_1) as older:
        insert(older, PERSON, node_rows(["c"]))
        assert read_ids(older, PERSON) == ["a", "c"]
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["d"]))
        assert (read_ids(graph, PERSON), read_ids(graph, PERSON, FEATURE)) == (["a", "c", "d"], ["a", "b"])


def test_every_version_of_an_older_format_passes_the_steps(storage):
    # The second look knows the schema already, and reads less.
    make_format(storage, "0", removes=("floor",))
    with open_graph(storage, formats=OLDER) as graph, open_graph(storage, formats=OLDER) as other:
        assert read_ids(other, PERSON) == []
        insert(graph, PERSON, node_rows(["a"]))
        make_format(storage, "0", removes=("floor",))
        assert read_ids(other, PERSON) == ["a"]
        insert(other, PERSON, node_rows(["b"]))
        assert _format_of(other) == 0


def test_a_migration_raises_every_branch_once_and_keeps_history_branches_and_tags(storage):
    with open_graph(storage) as graph:
        first = insert(graph, PERSON, node_rows(["a"])).commit
        graph.create_tag(TagName("v1"))
        line = graph.create_branch(FEATURE).line.lance_branch
        insert(graph, PERSON, node_rows(["b"]), branch=FEATURE)
    make_format(storage, "0", removes=("floor",))
    make_format(storage, "0", line, removes=("floor",))
    with open_graph(storage, formats=OLDER, mode="read_only") as graph:
        found = Migration(graph).preview().found
        assert [(each.name, each.format, each.target, each.action) for each in found] == [
            ("main", 0, 2, "preview"),
            ("feature", 0, 2, "preview"),
            ("v1", 2, 2, "current"),
        ]
        with pytest.raises(ReadOnlyError):
            Migration(graph).run()
    with open_graph(storage, formats=OLDER) as graph:
        done = Migration(graph, actor="mira", message="all machines are new").run()
        assert done.migrated == ("main", "feature")
        assert Migration(graph).run().migrated == Migration(graph).preview().outdated == ()
    with open_graph(storage) as graph:
        newest, *rest = history(graph)
        assert (newest.operation, newest.actor, newest.message) == ("upgrade", "mira", "all machines are new")
        assert (newest.id, rest[0].id) == (done.found[0].commit_id, first.id)
        assert [commit.operation for commit in history(graph, FEATURE)] == ["upgrade", "insert", "insert", "init"]
        assert (_format_of(graph), _format_of(graph, FEATURE)) == (2, 2)
        assert read_ids(graph, PERSON, FEATURE) == ["a", "b"]
        assert graph.refs.resolve_ref("tag:v1", MAIN).commit.id == first.id
        insert(graph, PERSON, node_rows(["c"]))


def test_a_branch_that_starts_at_an_older_state_is_found_by_the_next_migration(storage):
    make_format(storage, "1")
    with open_graph(storage) as graph:
        past = insert(graph, PERSON, node_rows(["a"])).commit
        Migration(graph).run()
        graph.create_branch(FEATURE, at=str(past.id))
        assert _format_of(graph, FEATURE) == 1
        insert(graph, PERSON, node_rows(["b"]), branch=FEATURE)
        assert Migration(graph).run().migrated == ("feature",)
        assert (_format_of(graph, FEATURE), read_ids(graph, PERSON, FEATURE)) == (2, ["a", "b"])


def test_branches_that_are_made_while_others_migrate_are_migrated_too(storage):
    make_format(storage, "1")
    with open_graph(storage) as graph, open_graph(storage) as other:
        past = insert(graph, PERSON, node_rows(["a"])).commit

        def make_branch():
            graph.stores.runtime.failpoints.disable("engine.migrate.after_line")
            other.create_branch(FEATURE, at=str(past.id))

        graph.stores.runtime.failpoints.enable("engine.migrate.after_line", make_branch)
        assert Migration(graph).run().migrated == ("main", "feature")


def test_an_open_graph_of_an_older_version_is_refused_from_the_migration_on(storage):
    make_format(storage, "1")
    with open_graph(storage, formats=FORMAT_1) as older, open_graph(storage) as graph:
        insert(older, PERSON, node_rows(["a"]))
        Migration(graph).run()
        with pytest.raises(FormatUnsupportedError, match="storage format 2; this version supports 1 to 1"):
            insert(older, PERSON, node_rows(["b"]))
        with pytest.raises(FormatUnsupportedError, match="storage format 2; this version supports 1 to 1"):
            older.snapshot(MAIN)
        assert read_ids(graph, PERSON) == ["a"]


def test_a_write_that_was_decided_before_a_migration_is_published_behind_it(storage):
    make_format(storage, "1")
    with open_graph(storage) as graph, open_graph(storage) as other:
        branch_writer = authority_of(graph)
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, node_rows(["a"]))
        Migration(other).run()
        branch_writer.commit(txn)
        assert (_format_of(graph), read_ids(graph, PERSON)) == (2, ["a"])


def test_of_two_migrations_one_publishes_and_the_other_finds_nothing_to_do(storage):
    make_format(storage, "1")
    program = (
        "import sys\n"
        "from omnigraph.engine.maintenance.migrate import Migration\n"
        "from omnigraph.store.location import Storage\n"
        "from tests.txn_graph import open_graph\n"
        "with open_graph(Storage.open(sys.argv[1])) as graph:\n"
        "    sys.stdin.readline()\n"
        "    print(len(Migration(graph).run().migrated))\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, storage.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for one in started:
        one.stdin.write("go\n")
        one.stdin.flush()
    assert sorted(one.communicate(timeout=300)[0].strip() for one in started) == ["0", "1"]
    with open_graph(storage) as graph:
        assert [commit.operation for commit in history(graph)] == ["upgrade", "init"]
        insert(graph, PERSON, node_rows(["a"]))


def test_commits_of_the_first_versions_are_completed_wherever_they_are_read():
    first = {"id": "01M7R4NE2QTRZ55A3SE4QE2EHT", "parent": None, "actor": None, "created_at_ms": 7}
    first |= {"manifest_version": 1, "operation": "init", "branch": "main", "merged_parent": None, "message": None}
    (commit,) = decode_commits(pa.table({"metadata": [json.dumps(first)]}))
    assert (commit.published_at_ms, commit.touched) == (7, ())
    with pytest.raises(ManifestCorruptError):
        decode_commits(pa.table({"metadata": [json.dumps(first | {"colour": "red"})]}))
