"""Every interleaving of owners and holders of offers keeps the promises, and planted mistakes break them."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.marks import small
from tests.model.explore import explore
from tests.model.protocol import steps
from tests.model.state import Bug, Scenario, Writer

X, Y, NOTHING = (0,), (1,), ()

HOLDER = Writer(name="A", tables=X, groups=True)
OWNER = Writer(name="B", tables=Y, offers=True, groups=True)
# One that gives up while it waits, and one that decides again for reasons that no holder sees.
HASTY = Writer(name="B", tables=Y, offers=True, deadline=True)
RESTLESS = Writer(name="B", tables=Y, offers=True, kind="restless")
RERUN = Writer(name="B", tables=X, offers=True, kind="rerun")
UPDATE = Writer(name="B", tables=X, offers=True, kind="update")
SECOND_OWNER = Writer(name="C", tables=X, offers=True, deadline=True)
SECOND_HOLDER = Writer(name="C", tables=X, groups=True)
STRANGER = Writer(name="C", tables=X)
# One that replaces a table while others add rows to it.
WHOLE = Writer(name="A", tables=X, groups=True, kind="whole")
BESIDE_WHOLE = Writer(name="B", tables=X, offers=True, groups=True)
SCHEMA = Writer(name="S", tables=X, kind="schema")
# Writes that leave every row as it was, and are published all the same.
TABLELESS = (
    Writer(name="A", tables=NOTHING, groups=True),
    Writer(name="B", tables=NOTHING, offers=True, deadline=True),
)


def _scenario(name: str, *writers: Writer, **bounds: int | bool | str) -> Scenario:
    """Nobody to recover, and nothing that goes wrong, unless ``bounds`` say otherwise."""
    calm: dict[str, int | bool | str] = {"recoverers": 0, "crashes": 0, "takeovers": 0, "rounds": 1}
    return Scenario(name=name, writers=writers, **{**calm, **bounds})  # type: ignore[arg-type] # the fields of a scenario


def _honest(name: str, *writers: Writer, **bounds: int | bool | str) -> Scenario:
    more: dict[str, int | bool | str] = {"recoverers": 1, "crashes": 1, "takeovers": 1, "honest": True}
    return _scenario(name, *writers, **{**more, **bounds})


# Each with a floor: a search that suddenly sees fewer states has lost some of its steps.
CLEAN = [
    (_scenario("an owner and a holder get through", HOLDER, OWNER, attempts=3, lively=True), 250),
    (_scenario("an update that no longer holds", HOLDER, UPDATE, attempts=3, lively=True), 170),
    (_honest("an owner and a holder die", HOLDER, OWNER, crashes=2, takeovers=2), 12_000),
    (_honest("a write that is decided again", HOLDER, RERUN), 2_000),
    (_scenario("anybody is presumed dead", HOLDER, HASTY, attempts=1, takeovers=1, recoverers=1), 24_000),
    (_scenario("an owner takes over", HOLDER, HASTY, takeovers=1), 7_500),
    (_scenario("an answer is lost to a hasty owner", HOLDER, HASTY, lost_answers=1), 6_500),
    (_scenario("an answer is lost to a restless owner", HOLDER, RESTLESS, lost_answers=1), 5_000),
    (_scenario("the power is cut", HOLDER, HASTY, power_cuts=1), 800),
    (_honest("the power is cut behind a crash", HOLDER, HASTY, power_cuts=1), 8_500),
    (_scenario("a live owner is taken for gone", HOLDER, HASTY, sweeps=1, power_cuts=1), 1_000),
    (_scenario("a restless owner is taken for gone", HOLDER, RESTLESS, sweeps=1, lost_answers=1), 5_000),
    (_scenario("writes without a table", *TABLELESS, takeovers=1, recoverers=1), 2_000),
    (_scenario("two owners and a holder", HOLDER, OWNER, SECOND_OWNER, attempts=1), 33_000),
    (_scenario("the schema changes", HOLDER, OWNER, SCHEMA, attempts=1), 5_000),
    (_scenario("a table is replaced", WHOLE, BESIDE_WHOLE, attempts=3, lively=True), 200),
    (_honest("a table is replaced by one that dies", WHOLE, BESIDE_WHOLE), 2_000),
]

# The largest searches belong to `make crash`.
IS_FULL = os.environ.get("OMNIGRAPH_CRASH") == "full"
if IS_FULL:
    lossy = {"lost_answers": 1, "losing": "take_back"}
    CLEAN += [
        (_scenario("two holders take along what lies there", HOLDER, OWNER, SECOND_HOLDER, attentive=True), 43_000),
        (_scenario("a hasty owner", HOLDER, HASTY, crashes=1, takeovers=1, recoverers=1), 220_000),
        (_scenario("a restless owner", HOLDER, RESTLESS, crashes=1, takeovers=1, recoverers=1), 300_000),
        (_scenario("two owners, two attempts", HOLDER, OWNER, SECOND_OWNER), 85_000),
        (_scenario("a restless owner and two others", HOLDER, RESTLESS, STRANGER, attempts=3), 95_000),
        (_scenario("the schema changes, two attempts", HOLDER, OWNER, SCHEMA), 27_000),
        (_scenario("a claim is taken back without an answer", HOLDER, RESTLESS, STRANGER, crashes=1, **lossy), 220_000),
        (
            _scenario("an offer is put without an answer", HOLDER, HASTY, STRANGER, lost_answers=1, losing="offer"),
            135_000,
        ),
    ]

ALONE = _scenario("an owner and a holder", HOLDER, OWNER)
GIVING_UP = _scenario("an owner that gives up", HOLDER, HASTY)
CUT = _scenario("with a power cut", HOLDER, OWNER, power_cuts=1)
RESTLESS_OF_THREE = _scenario("an owner that decides again", HOLDER, RESTLESS, STRANGER)

PLANTED = [
    (Bug.UNVERIFIED, GIVING_UP, "I5"),
    (Bug.RERUN_UNPROVEN, RESTLESS_OF_THREE, "I10"),
    (Bug.REUSED_NAME, RESTLESS_OF_THREE, "I10"),
    (Bug.REPEATED, ALONE, "I7"),
    (Bug.UNSEEN, ALONE, "I7"),
    (Bug.NONE_UNPROVEN, GIVING_UP, "I5"),
    (Bug.LOOK_BEFORE_DELETE, GIVING_UP, "I5"),
    (Bug.FAILED_UNSEEN, GIVING_UP, "I5"),
    (Bug.SINGLE_LOOK, GIVING_UP, "I5"),
    (Bug.FOREIGN_CLAIM_PROVES, _scenario("beside a third", HOLDER, HASTY, STRANGER), "I5"),
    (Bug.STALE_GROUP, ALONE, "I7"),
    (Bug.DROPPED_EARLY, CUT, "I2"),
    (Bug.ACKED_UNSYNCED, CUT, "I2"),
    (Bug.OWN_DELETION, replace(GIVING_UP, power_cuts=1), "I2"),
    (Bug.OTHER_SCHEMA, _scenario("beside a change of the schema", HOLDER, OWNER, SCHEMA), "I11"),
    (Bug.MOVED_ROWS, _scenario("an update", HOLDER, UPDATE), "I12"),
    (Bug.FAILED_GROUP, _scenario("beside an update", HOLDER, UPDATE, attempts=3, lively=True), "L1"),
    (Bug.NEVER_LISTS, _scenario("of three", HOLDER, OWNER, SECOND_HOLDER, attentive=True), "L2"),
    (Bug.LAST_COMMIT, _scenario("after a takeover", HOLDER, OWNER, takeovers=1, recoverers=1), "I2"),
    (Bug.TRUSTED_LATE, replace(CUT, sweeps=1), "I2"),
    (Bug.EMPTY_GROUP, _honest("without a table", *TABLELESS), "I5"),
    (Bug.WHOLE_TABLE, _scenario("a table is replaced", WHOLE, BESIDE_WHOLE), "I1"),
    (Bug.UNFENCED, replace(GIVING_UP, lost_answers=1), "I5"),
]
if IS_FULL:
    lost = {"lost_answers": 1, "losing": "take_back"}
    PLANTED += [(Bug.BLIND_RETRY, _honest("of three", HOLDER, RESTLESS, STRANGER, **lost), "I6")]

# Mistakes that something else makes up for, so that nobody counts on them being noticed.
COVERED = [
    # What has moved once never holds again, so that a holder refuses the old contents whatever their name.
    (Bug.REUSED_NAME, _honest("what moved never holds again", HOLDER, RERUN)),
    # It takes a third writer, which claims upon a version that is no longer the newest.
    (Bug.FOREIGN_CLAIM_PROVES, GIVING_UP),
    # Offers are deleted before the claim that published them, so that whoever claims after it misses them.
    (Bug.LAST_COMMIT, ALONE),
]


def _ids(cases: list[tuple[Bug, Scenario, str]] | list[tuple[Bug, Scenario]]) -> list[str]:
    return [f"{case[0].name}: {case[1].name}" for case in cases]


@pytest.mark.parametrize(("scenario", "floor"), small(6_000, CLEAN), ids=[scenario.name for scenario, _ in CLEAN])
def test_no_interleaving_of_offers_breaks_an_invariant(scenario, floor):
    found = explore(scenario)
    print(f"{scenario.name}: {found.states} states, {found.transitions} steps, {found.quiet} of them quiet")
    assert found.counterexample is None, str(found.counterexample)
    assert found.states >= floor


@pytest.mark.parametrize(("bug", "scenario", "invariant"), PLANTED, ids=_ids(PLANTED))
def test_a_mistake_planted_in_offers_is_found(bug, scenario, invariant):
    found = explore(replace(scenario, bugs=frozenset({bug}))).counterexample
    assert found is not None
    print(found)
    assert found.invariant == invariant


@pytest.mark.parametrize(("bug", "scenario"), COVERED, ids=_ids(COVERED))
def test_a_mistake_in_offers_that_another_rule_covers_breaks_nothing(bug, scenario):
    found = explore(replace(scenario, bugs=frozenset({bug})))
    assert found.counterexample is None, str(found.counterexample)
    assert found.quiet > 0


def _follow(scenario: Scenario, *labels: str):
    state = scenario.initial()
    for label in labels:
        state = dict(steps(scenario, state))[label]
    return state


def test_a_waiting_write_is_published_with_the_write_of_the_holder():
    state = _follow(
        ALONE,
        "B decides upon version 1",
        "B offers 1",
        "A decides upon version 1",
        "A loads version 1",
        "A stages itself and B",
        "A claims 2",
        "A verifies its offers",
        "A commits X on version 1",
        "A commits Y on version 1",
        "A publishes",
        "A deletes the offer of B",
        "A releases claim 2",
        "B finds its commit",
    )
    assert state.manifest[-1].commits == (("A",), ("B",))
    assert state.manifest[-1].pins == (2, 2)
    assert [proc.outcome for proc in state.procs] == ["acked", "acked"]
    assert state.offers == state.claims == ()


def test_a_withdrawal_is_proven_by_the_claim_that_does_not_exist():
    state = _follow(
        GIVING_UP,
        "B decides upon version 1",
        "B offers 1",
        "A decides upon version 1",
        "A loads version 1",
        "A stages itself and B",
        "B is out of time",
        "B withdraws its offer",
        "B sees version 1",
        "B sees no claim 2",
        "A claims 2",
        "B still sees version 1",
        "A misses an offer",
        "A takes claim 2 back",
        "A loads version 1",
        "A stages itself",
    )
    assert [proc.outcome for proc in state.procs] == ["", "none"]
    assert state.claims == ()
