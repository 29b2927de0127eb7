"""Maintenance in the background: what it says, and of which branches it says nothing."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from omnigraph.engine.maintenance.auto import AutoMaintenance
from omnigraph.errors import BranchMissingError, MissingThing, TypeMissingError
from omnigraph.runtime import Runtime
from omnigraph.values import BranchName

DELETED = BranchMissingError("branch 'side' not found", details=MissingThing(what="branch", name="side"))
OTHER = TypeMissingError("type 'A' was not found", details=MissingThing(what="type", name="A"))


@pytest.mark.parametrize(("trouble", "said"), [(DELETED, 0), (OTHER, 1)])
def test_a_branch_that_was_deleted_meanwhile_is_no_failure(trouble, said, caplog):
    tried, done = [], threading.Event()

    def tidy(branch, is_stopped):
        tried.append((branch, is_stopped()))
        if branch == "side":
            raise trouble
        done.set()

    maintenance = AutoMaintenance(tidy, 1, Runtime.system().clock)
    for name in ("side", "main"):
        maintenance.note(BranchName(name), [SimpleNamespace(operation="mutate")])
    assert done.wait(300)
    maintenance.close()
    assert tried == [("side", False), ("main", False)]
    assert len(caplog.records) == said
