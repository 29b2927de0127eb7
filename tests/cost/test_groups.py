"""What it costs to publish the writes of other processes beside one's own: two listings, and a read for each."""

from __future__ import annotations

import math

import pytest

from omnigraph.txn.offers.owner import OwnOffer
from omnigraph.txn.publish import publisher
from omnigraph.txn.publish.batch import Batch, Member
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from tests.cost.driver import sample
from tests.txn_graph import PERSON, authority_of, node_rows, open_graph, read_ids

ALONE = 9
SIZES = (1, 4, 16)
IN_LINE = TxnSettings(durability="relaxed")


@pytest.fixture
def driver(fresh_driver):
    return fresh_driver(10, 4)


@pytest.fixture
def driver_in_line(fresh_driver):
    """One that tells others of its machine, and listens to them."""
    return fresh_driver(10, 4, settings=IN_LINE)


@pytest.fixture
def other(driver):
    """The same graph as another process has it open."""
    with open_graph(driver.storage) as graph:
        yield graph


def offer(graph, ids):
    """Leave one write for each id where others find it, as a writer that waits does; return the names of the offers."""
    writer = authority_of(graph)
    made = []
    for one in ids:
        txn = writer.begin(WriteKind.INSERT, actor=f"of {one}")
        txn.insert(PERSON, node_rows([one]))
        made.append(OwnOffer(writer.services, Batch([Member(txn)])))
        made[-1].make(txn.snapshot.manifest)
    return [own.name for own in made]


def announce(graph, names):
    """Write offers on the board of the machine, as the processes that made them would."""
    lines = [authority_of(graph).services.machine_line() for _ in names]
    for line, name in zip(lines, names, strict=True):
        line.try_take()
        line.leave()
        line.announce(name)
    return lines


def contended(driver):
    """Price an insert of a writer that has met others lately."""
    driver.main._publisher._saw_others()
    return sample(driver.endpoint, lambda: driver.write("keyed insert"))


@pytest.mark.parametrize(("just_seen_s", "looks"), [(math.inf, 2), (-1.0, 3)], ids=["just seen", "seen long ago"])
def test_a_group_costs_one_write_two_listings_and_a_read_for_each_guest(driver, other, monkeypatch, just_seen_s, looks):
    monkeypatch.setattr(publisher, "_JUST_SEEN_S", just_seen_s)
    for _ in range(3):
        driver.write("keyed insert")
    alone = sample(driver.endpoint, lambda: driver.write("keyed insert"))
    assert alone.calls <= ALONE + 1
    nobody = contended(driver)
    # What is offered, whether the branch moved under the claim, and before it uploads, if nobody has looked lately.
    assert nobody.calls == alone.calls + looks
    stages = set()
    for size in SIZES:
        ids = [f"guest-{size}-{number}" for number in range(size)]
        offer(other, ids)
        group = contended(driver)
        assert group.calls == nobody.calls + size + 1, group.kinds
        stages.add(group.stages - nobody.stages)
        assert set(ids) <= set(read_ids(driver.graph, PERSON))
    # Guests are read side by side: however many there are, they take one hop, and looking for them again another.
    assert max(stages) <= 2


def test_offers_that_are_announced_are_read_while_others_are_listed(driver_in_line):
    driver, other = driver_in_line, driver_in_line.graph
    driver.write("keyed insert")
    nobody = contended(driver)
    ids = ["told-1", "told-2", "listed"]
    *told, _ = offer(other, ids)
    lines = announce(other, told)
    told_and_listed = contended(driver)
    assert set(ids) <= set(read_ids(driver.graph, PERSON))
    # What was published is wiped off the board.
    assert lines[0].announced() == lines[1].announced() == ()
    announce(other, offer(other, ["told-3", "told-4"]))
    all_told = contended(driver)
    assert {"told-3", "told-4"} <= set(read_ids(driver.graph, PERSON))
    assert (told_and_listed.calls, all_told.calls) == (nobody.calls + 4, nobody.calls + 3)
    assert all_told.stages == nobody.stages
    assert told_and_listed.stages == nobody.stages + 1


def test_what_is_announced_and_not_there_costs_one_read_once(driver_in_line):
    driver, other = driver_in_line, driver_in_line.graph
    driver.write("keyed insert")
    nobody = contended(driver)
    (gone,) = offer(other, ["gone"])
    authority_of(other).services.offers.remove([gone])
    (line,) = announce(other, [gone])
    assert contended(driver).calls == nobody.calls + 1
    assert contended(driver).calls == nobody.calls
    line.leave()
    assert "gone" not in read_ids(driver.graph, PERSON)


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
