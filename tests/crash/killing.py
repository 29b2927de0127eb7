"""Bringing crashes about by the dozen: graphs made, writers killed upon them, then recoverers one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from omnigraph.store.location import Storage
from tests.crash.child import Job
from tests.crash.dying import Morgue, Places, chunks, crash_together
from tests.crash.matrix import BrokenRecovery, Crash

Prepare = Callable[[Crash, Places], Storage]
MakeJob = Callable[..., Job]


def params(chosen: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The cases of every store as parameters of a test; one worker takes those that are brought about together."""
    return [
        pytest.param(
            store,
            case,
            id=f"{store}-{case.name}",
            marks=[pytest.mark.xdist_group(f"{store}-{chunk[0].name}"), *([pytest.mark.more] if store == "s3" else [])],
        )
        for store, cases in chosen.items()
        for chunk in chunks(cases)
        for case in chunk
    ]


def job_of(kind, crash, storage, *, act="write", point=None, nth=1, name=None, **more):
    """Return the job of a class in which a crash of a graph is played."""
    return kind(
        name=name or crash.name,
        root=storage.root,
        options=dict(storage.options),
        kind=crash.kind,
        act=act,
        point=point,
        nth=nth,
        **more,
    )


def morgues(chosen, places_of, kill):
    """Return what finds the graph of a case, bringing it and its neighbours about when it is first asked for."""
    opened = {}

    def storage_of(store, case):
        if store not in opened:
            opened[store] = Morgue(chosen[store], places_of(store), kill)
        return opened[store].storage_of(case)

    return storage_of


def killing_writers(prepare: Prepare, make_job: MakeJob):
    """Return what kills writers, each upon a graph that ``prepare`` makes."""

    def kill(crashes: Sequence[Crash], places: Places) -> dict[str, Storage]:
        storages = {crash.name: prepare(crash, places) for crash in crashes}
        crash_together(make_job(crash, storages[crash.name], point=crash.point, nth=crash.nth) for crash in crashes)
        return storages

    return kill


def killing_recoverers(prepare: Prepare, make_job: MakeJob):
    """Return what kills writers and then everybody who comes to recover."""

    def kill(cases: Sequence[BrokenRecovery], places: Places) -> dict[str, Storage]:
        storages = {case.name: prepare(case.crash, places) for case in cases}
        crash_together(
            make_job(case.crash, storages[case.name], point=case.crash.point, nth=case.crash.nth, name=case.name)
            for case in cases
        )
        for turn in range(max(len(case.points) for case in cases)):
            due = [case for case in cases if len(case.points) > turn]
            crash_together(
                make_job(
                    case.crash,
                    storages[case.name],
                    act="recover",
                    point=case.points[turn][0],
                    nth=case.points[turn][1],
                    name=case.name,
                )
                for case in due
            )
        return storages

    return kill
