"""Whoever dies while writes are offered, taken along or taken back: each write is there once, or was never promised."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.runtime.failpoints import ENVIRONMENT_VARIABLE
from omnigraph.store.control import ControlObjects
from tests.crash.checks import assert_sound
from tests.crash.dying import crash_together
from tests.crash.killing import params
from tests.crash.matrix import IS_FULL
from tests.crash.offer_child import OfferJob
from tests.crash.offer_scenes import (
    BLOCKER,
    COMPANION,
    DYING,
    LAST,
    OfferCrash,
    Scene,
    offer_crashes,
    offers_of,
    play,
    write_twice,
)
from tests.marks import STORES, first
from tests.txn_graph import PERSON, TEAM, history, open_graph, read_ids
from tests.warm import PROJECT, WarmProcess

CRASHES = offer_crashes()
CHOSEN = {"local": CRASHES, "s3": CRASHES if IS_FULL else CRASHES[::5]}
# So many graphs are open at once in the process of the test, each by two writers.
_TOGETHER = 6
_LONGEST_S = 120


@pytest.fixture(scope="module")
def ended(places_of):
    """What finds the scene of a crash, brought about together with its neighbours when it is first asked for."""
    known = {}

    def scene_of(store, crash):
        if (store, crash) not in known:
            start = CHOSEN[store].index(crash) // _TOGETHER * _TOGETHER
            chosen = CHOSEN[store][start : start + _TOGETHER]
            known.update({(store, one): end for one, end in _bring_about(chosen, places_of(store))})
        return known[store, crash]

    return scene_of


def _bring_about(crashes, places):
    scenes = [(crash, Scene(places.fresh(), places.options, line_up=crash.line_up)) for crash in crashes]
    jobs = [
        OfferJob(
            name=crash.name,
            root=scene.storage.root,
            options=dict(scene.storage.options),
            kind="",
            act=crash.act,
            point=crash.point,
            line_up=crash.line_up,
        )
        for crash, scene in scenes
    ]
    play(scenes, lambda: crash_together(jobs))
    return [(crash, (scene.storage, *scene.end())) for crash, scene in scenes]


@pytest.mark.parametrize(("store", "crash"), params(CHOSEN))
def test_whoever_dies_around_an_offer_leaves_each_write_once_or_not_at_all(store, crash, ended):
    storage, *told = ended(store, crash)
    assert not [outcome for outcome in told if isinstance(outcome, OmnigraphError)]
    _assert_settled(storage, crash, told)


class Sleeper:
    """A process that stops itself at a point, and goes on when it is woken."""

    def __init__(self, scene, point, out, *, act="write", fails_at=None):
        self._out = out
        storage = scene.storage
        job = {
            "name": point,
            "root": storage.root,
            "options": dict(storage.options),
            "kind": "",
            "act": act,
            "point": None,
            "line_up": False,
        }
        points = [f"{point}=stop@1", *([] if fails_at is None else [f"{fails_at}=error@1"])]
        environment = {**os.environ, ENVIRONMENT_VARIABLE: ";".join(points)}
        with out.open("wb") as told:
            self._process = WarmProcess(
                OfferJob.module, [json.dumps(job)], cwd=PROJECT, env=environment, out=told.fileno(), err=told.fileno()
            )

    def wait_until_asleep(self):
        while self._process.poll() is None:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text()
            if stat.rpartition(")")[2].split()[0] == "T":
                return
        pytest.fail(f"it has not stopped: {self._out.read_text()}")

    def wake(self):
        """Let it go on to its end, and return what it was told."""
        self._process.send_signal(signal.SIGCONT)
        assert self._process.wait(_LONGEST_S) == 0, self._out.read_text()
        return self._out.read_text()


@pytest.fixture
def sleeping(places_of, tmp_path):
    """What starts a scene and the process that will sleep in it; whatever happens, nobody sleeps for ever."""
    with ExitStack() as stack:

        def start(store, point, **more):
            places = places_of(store)
            scene = Scene(places.fresh(), places.options, line_up=False, presumes=True)
            sleeper = Sleeper(scene, point, tmp_path / "told", **more)
            stack.callback(sleeper._process.kill)
            return scene, sleeper

        yield start


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    "point",
    first(
        2,
        [
            "txn.offers.after_verify",
            "txn.publish.before_cas",
            "txn.offers.after_list",
            "txn.offers.before_verify",
            "txn.commit.after_tables",
            "txn.publish.after_cas",
            "txn.offers.before_delete",
        ],
    ),
)
def test_a_holder_that_sleeps_and_wakes_late_neither_loses_nor_doubles_what_it_took_along(store, point, sleeping):
    scene, sleeper = sleeping(store, point)
    scene.wait_for_offer()
    scene.start_companion(is_paused=True)
    scene.release_blocker()
    sleeper.wait_until_asleep()
    # The companion presumes it dead, and finds or publishes its own write.
    assert not isinstance(scene.resume_companion(), OmnigraphError)
    assert sleeper.wake() == "acknowledged"
    _assert_settled_with(scene, "acknowledged")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    ("point", "more", "expected"),
    first(
        1,
        [
            ("txn.offer.after_withdraw", {"act": "give_up"}, "none"),
            # What became of its put was not told; its time is over before it has a turn.
            ("txn.offer.before_withdraw", {"act": "give_up", "fails_at": "txn.offer.after_put"}, "none"),
            # By now its time is over, so that nobody takes it along any more.
            ("txn.offer.before_withdraw", {"act": "give_up"}, "none"),
            ("txn.offer.before_put", {}, "acknowledged"),
            ("txn.offer.after_put", {}, "acknowledged"),
        ],
    ),
)
def test_an_owner_that_sleeps_and_wakes_late_is_told_what_became_of_its_write(store, point, more, expected, sleeping):
    scene, sleeper = sleeping(store, point, **more)
    sleeper.wait_until_asleep()
    if expected == "none":
        scene.wait_until_overdue()
    scene.start_companion(is_paused=False)
    scene.release_blocker()
    assert not isinstance(scene.resume_companion(), OmnigraphError)
    told = sleeper.wake()
    _remove_fences(scene.storage)
    _assert_settled_with(scene, told)
    assert told == expected


def _remove_fences(storage):
    """Remove what keeps the names of offers taken whose puts may yet arrive: it goes by itself, but in an hour."""
    control = ControlObjects(storage)
    for key in offers_of(storage):
        if control.get(key) == b"":
            control.delete(key)


def _assert_settled_with(scene, told):
    outcomes = scene.end()
    with open_graph(scene.storage) as graph:
        assert read_ids(graph, PERSON).count(DYING) == (told == "acknowledged")
    crash = OfferCrash(point="", line_up=False)
    _assert_settled(scene.storage, crash, outcomes)


def _assert_settled(storage, crash: OfferCrash, told):
    with open_graph(storage) as graph:
        people, teams = read_ids(graph, PERSON), read_ids(graph, TEAM)
        assert people == teams
        assert {BLOCKER, COMPANION} <= set(people) <= {BLOCKER, COMPANION, DYING}
        assert len(set(people)) == len(people)
        assert DYING in people or not crash.is_published
        write_twice(graph, LAST)
        assert read_ids(graph, PERSON) == read_ids(graph, TEAM) == sorted([*people, LAST])
        commits = history(graph)
        for mark in (*people, LAST):
            assert [commit.actor for commit in commits].count(mark) == 1
        assert {outcome.commit.id for outcome in told} <= {commit.id for commit in commits}
    assert_sound(storage)
