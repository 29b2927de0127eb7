"""When a server takes over another revision of a cluster, and when it tries again."""

from __future__ import annotations

import threading

import pytest

from omnigraph.cluster.ledger.documents import state_error
from omnigraph.errors import BadValue, UsageError
from omnigraph.server.cluster import may_pass
from omnigraph.server.control.lifecycle import Reloading
from omnigraph.server.control.settings import ControlSettings
from omnigraph.server.control.watching import RevisionWatch

PENDING = state_error("cluster_recovery_pending", "state.json", "graph 'crm' is being changed")
TAMPERED = state_error("catalog_payload_missing", "x.gq", "the text is missing")


class Ledger:
    """A ledger with a stamp, and what came of taking its revisions over."""

    def __init__(self) -> None:
        self.stamp = 1
        self.seen: int | None = 1
        self.problem: Exception | None = None
        self.unreachable: Exception | None = None
        self.tried: list[int] = []

    def has_changed(self) -> bool:
        if self.unreachable is not None:
            raise self.unreachable
        return self.seen != self.stamp

    def reload(self) -> str:
        self.seen = self.stamp
        self.tried.append(self.stamp)
        if self.problem is not None:
            raise self.problem
        return "in force"

    def look_again(self) -> None:
        self.seen = None


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def watch(ledger: Ledger) -> RevisionWatch:
    return RevisionWatch(
        ledger.has_changed,
        Reloading(ledger.reload),
        look_again=ledger.look_again,
        may_pass=may_pass,
        every_ms=5,
        stopping=threading.Event(),
    )


def test_revision_is_taken_over_once(ledger: Ledger, watch: RevisionWatch):
    watch.look()
    assert ledger.tried == []
    ledger.stamp = 2
    watch.look()
    watch.look()
    assert ledger.tried == [2]


@pytest.mark.parametrize(
    "problem",
    [
        TAMPERED,
        UsageError("two graphs have the id 'crm'", details=BadValue(what="", value="", expected="")),
        ValueError("bug"),
    ],
)
def test_broken_revision_is_not_tried_again_before_it_changes(ledger: Ledger, watch: RevisionWatch, problem: Exception):
    ledger.stamp, ledger.problem = 2, problem
    watch.look()
    watch.look()
    assert ledger.tried == [2]
    ledger.stamp, ledger.problem = 3, None
    watch.look()
    assert ledger.tried == [2, 3]


def test_revision_that_is_not_settled_is_tried_until_it_is(
    ledger: Ledger, watch: RevisionWatch, caplog: pytest.LogCaptureFixture
):
    ledger.stamp, ledger.problem = 2, PENDING
    for _ in range(3):
        watch.look()
    ledger.problem = None
    watch.look()
    watch.look()
    assert ledger.tried == [2, 2, 2, 2]
    assert [record.message for record in caplog.records if "refused" in record.message] == [
        "the new configuration was refused, the old one stays in use: graph 'crm' is being changed"
    ]


@pytest.mark.parametrize("problem", [PENDING, ValueError("bug")])
def test_what_keeps_it_from_looking_ends_nothing(
    ledger: Ledger, watch: RevisionWatch, caplog: pytest.LogCaptureFixture, problem: Exception
):
    ledger.unreachable = problem
    for _ in range(3):
        watch.look()
    ledger.unreachable, ledger.stamp = None, 2
    watch.look()
    assert ledger.tried == [2]
    assert len([record for record in caplog.records if "cannot check for" in record.message]) == 1


def test_how_often_it_looks_is_a_setting():
    assert ControlSettings.from_environment({}).cluster_poll_ms == 2000
    assert ControlSettings.from_environment({"OMNIGRAPH_CLUSTER_POLL_MS": "0"}).cluster_poll_ms == 0
    assert ControlSettings.from_environment({"OMNIGRAPH_CLUSTER_POLL_MS": "250"}).cluster_poll_ms == 250
    assert ControlSettings.from_environment({"OMNIGRAPH_CLUSTER_POLL_MS": "soon"}).cluster_poll_ms == 2000
