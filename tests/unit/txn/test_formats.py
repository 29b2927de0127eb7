"""A graph says which format it is in; what cannot be served is refused, what is older is carried up once."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.txn_graph import PERSON, authority_of, history, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.errors import FormatUnsupportedError, ManifestCorruptError
from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.txn.manifest.codec import FORMAT_KEY, FormatChain
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import BranchName


def _rewrite_metadata(rows, change):
    """Return manifest rows with the head row's metadata changed."""
    records = rows.to_pylist()
    for record in records:
        if record["object_type"] == "graph_head":
            metadata = json.loads(record["metadata"])
            change(metadata)
            record["metadata"] = json.dumps(metadata)
    return pa.Table.from_pylist(records, schema=rows.schema)


def _add_floor(rows):
    return _rewrite_metadata(rows, lambda metadata: metadata.setdefault("floor", 0))


OLDER = FormatChain(oldest=0, newest=1, steps={0: _add_floor})


def _make_format(storage, stamp, line=None):
    """Turn a fresh graph into one of a synthetic older or newer format: no floor in the head row, another stamp."""
    datasets = DatasetStore(storage, Runtime.system({}))
    dataset = datasets.open_latest("__manifest", line)
    state = datasets.read(dataset, [0], None)
    older = _rewrite_metadata(state, lambda metadata: metadata.pop("floor"))
    fragment = datasets.stage_fragment(dataset, older)
    schema = dataset.schema.with_metadata({FORMAT_KEY: stamp} if stamp is not None else {})
    datasets.replace(dataset, (fragment, *dataset.fragments[1:]), schema, {}, Runtime.system({}).ids.uuid())


@pytest.fixture
def storage(tmp_path):
    return init_graph(tmp_path / "g")


@pytest.mark.parametrize("mode", ["read_write", "read_only"])
@pytest.mark.parametrize(("stamp", "hint"), [("0", "export the graph"), ("2", "upgrade omnigraph")])
def test_a_format_outside_the_range_is_refused_in_both_modes(storage, mode, stamp, hint):
    _make_format(storage, stamp)
    with pytest.raises(FormatUnsupportedError, match=f"storage format {stamp}; this version supports 1 to 1") as caught:
        open_graph(storage, mode=mode)
    assert hint in caught.value.hint
    assert (caught.value.details.found, caught.value.details.newest) == (int(stamp), 1)


def test_a_manifest_without_a_stamp_is_refused(storage):
    _make_format(storage, None)
    with pytest.raises(ManifestCorruptError, match="no format stamp"):
        open_graph(storage)


def test_an_older_format_is_read_without_being_changed(storage):
    _make_format(storage, "0")
    with open_graph(storage, mode="read_only", formats=OLDER) as graph:
        assert read_ids(graph, PERSON) == []
        assert graph.snapshot(BranchName("main")).manifest.format == 0


def test_opening_for_writing_upgrades_once_and_keeps_history(storage):
    with open_graph(storage) as graph:
        first = insert(graph, PERSON, node_rows(["a"])).commit
    _make_format(storage, "0")
    for _ in range(2):
        with open_graph(storage, formats=OLDER) as graph:
            assert graph.snapshot(BranchName("main")).manifest.format == 1
            operations = [commit.operation for commit in history(graph)]
            assert operations == ["upgrade", "insert", "init"]
            assert history(graph)[1].id == first.id
    with open_graph(storage) as graph:
        insert(graph, PERSON, node_rows(["b"]))
        assert read_ids(graph, PERSON) == ["a", "b"]


def test_two_openers_upgrade_once(storage):
    _make_format(storage, "0")
    program = (
        "import sys\n"
        "from omnigraph.store.location import Storage\n"
        "from tests.txn_graph import open_graph\n"
        "from tests.unit.txn.test_formats import OLDER\n"
        "sys.stdin.readline()\n"
        "open_graph(Storage.open(sys.argv[1]), formats=OLDER).close()\n"
    )
    openers = [
        subprocess.Popen([sys.executable, "-c", program, storage.root], stdin=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for opener in openers:
        opener.stdin.write("go\n")
        opener.stdin.close()
    assert [opener.wait(300) for opener in openers] == [0, 0]
    with open_graph(storage) as graph:
        assert [commit.operation for commit in history(graph)] == ["upgrade", "init"]
        insert(graph, PERSON, node_rows(["a"]))


def test_an_upgrade_that_finds_its_work_done_commits_nothing(storage):
    _make_format(storage, "0")
    with open_graph(storage, mode="read_only", formats=OLDER) as late:
        # Two handles that both saw the older format, as two openers do.
        late._mode = "read_write"
        branch_writer = authority_of(late)
        txn = branch_writer.begin(WriteKind.UPGRADE)
        txn.is_upgrade = True
        open_graph(storage, formats=OLDER).close()
        assert branch_writer.commit(txn).commit is None
    with open_graph(storage) as graph:
        assert [commit.operation for commit in history(graph)] == ["upgrade", "init"]


def test_a_branch_is_upgraded_when_it_is_first_written(storage):
    feature = BranchName("feature")
    with open_graph(storage) as graph:
        line = graph.create_branch(feature).line.lance_branch
    _make_format(storage, "0", line)
    with open_graph(storage, formats=OLDER) as graph:
        assert graph.snapshot(feature).manifest.format == 0
        insert(graph, PERSON, node_rows(["b"]), branch="feature")
        assert graph.snapshot(feature).manifest.format == 1
    with open_graph(storage) as graph:
        assert read_ids(graph, PERSON, "feature") == ["b"]
