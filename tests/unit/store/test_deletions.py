"""A deletion file says which rows of a fragment are gone; whatever cannot be read that way is left to a scan."""

import pytest
from tests.history_graph import PERSON, create, open_store, write

from omnigraph.store.location import Storage
from omnigraph.store.tables.row_versions import read_deletions
from omnigraph.values import MAIN, BranchName

ROW = {"age": 1, "weight": None, "tags": None, "born": None}


@pytest.fixture
def root(tmp_path):
    storage = create(tmp_path / "graph")
    with open_store(storage) as store:
        write(store, {PERSON: {f"r{number}": ROW for number in range(10)}})
    return tmp_path / "graph"


def places(store, branch=MAIN):
    table = store.snapshot(BranchName(branch)).table(PERSON)
    (fragment,) = table.fragments
    return read_deletions(table, fragment.metadata)


def test_places_come_in_order_on_main_and_on_a_fork(root):
    with open_store(Storage.open(str(root))) as store:
        assert places(store).tolist() == []
        write(store, {PERSON: {"r7": None, "r2": None}})
        assert places(store).tolist() == [2, 7]
        store.create_branch(BranchName("side"))
        write(store, {PERSON: {"r0": None}}, branch="side")
        assert places(store, "side").tolist() == [0, 2, 7]


@pytest.mark.parametrize("damage", [b"", b"ARROW1", None])
def test_a_file_that_cannot_be_read_is_left_to_a_scan(root, damage):
    with open_store(Storage.open(str(root))) as store:
        write(store, {PERSON: {"r7": None}})
        (path,) = root.rglob("_deletions/*.arrow")
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
        assert places(store) is None
