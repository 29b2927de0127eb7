"""What it costs to publish the writes of other processes beside one's own: a listing or two, and a read for each."""

from __future__ import annotations

import pytest

from omnigraph.txn.offers.owner import OwnOffer
from omnigraph.txn.publish.batch import Batch, Member
from omnigraph.txn.publish.kinds import WriteKind
from tests.cost.driver import sample
from tests.txn_graph import PERSON, authority_of, node_rows, open_graph, read_ids

ALONE = 9
SIZES = (1, 4, 16)


@pytest.fixture
def driver(fresh_driver):
    return fresh_driver(10, 4)


@pytest.fixture
def other(driver):
    """The same graph as another process has it open."""
    with open_graph(driver.storage) as graph:
        yield graph


def offer(graph, ids):
    """Leave one write for each id where others find it, as a writer that waits does."""
    writer = authority_of(graph)
    for one in ids:
        txn = writer.begin(WriteKind.INSERT, actor=f"of {one}")
        txn.insert(PERSON, node_rows([one]))
        OwnOffer(writer.services, Batch([Member(txn)])).make(txn.snapshot.manifest)


def contended(driver):
    """Price an insert of a writer that has met others lately."""
    driver.main._publisher._saw_others()
    return sample(driver.endpoint, lambda: driver.write("keyed insert"))


def test_a_group_costs_one_write_two_listings_and_a_read_for_each_guest(driver, other):
    for _ in range(3):
        driver.write("keyed insert")
    alone = sample(driver.endpoint, lambda: driver.write("keyed insert"))
    assert alone.calls <= ALONE + 1
    nobody = contended(driver)
    # Whether the branch has moved before it uploads, what is offered, and once more whether it moved under its claim.
    assert nobody.calls <= alone.calls + 3
    stages = set()
    for size in SIZES:
        ids = [f"guest-{size}-{number}" for number in range(size)]
        # Those who were published last are waited for, which may take another listing; here nobody comes back.
        driver.write("keyed insert")
        offer(other, ids)
        group = contended(driver)
        assert group.calls == nobody.calls + size + 1, group.kinds
        stages.add(group.stages - nobody.stages)
        assert set(ids) <= set(read_ids(driver.graph, PERSON))
    # Guests are read side by side: however many there are, they take one hop, and looking for them again another.
    assert max(stages) <= 2


def test_every_guest_keeps_its_commit_in_one_version(driver, other):
    offer(other, ["a", "b", "c"])
    driver.main._publisher._saw_others()
    done = driver.write("keyed insert")
    state = driver.main.snapshot().state
    together = [commit for commit in state.recent if commit.manifest_version == done.manifest_version]
    assert [commit.actor for commit in together] == [None, "of a", "of b", "of c"]
    assert (
        state.table(PERSON).pin.version
        == other.snapshot(driver.main.services.line.name).state.table(PERSON).pin.version
    )
