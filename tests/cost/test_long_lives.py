"""A process that commits for a long time: what it holds open, and what a commit stores and asks, does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

import omnigraph
from omnigraph.txn.settings import TxnSettings
from tests.footprint import Footprint
from tests.marks import STORES

SCHEMA = """
node Person { slug: String @key  age: I32? }
edge Knows: Person -> Person
"""
INSERT = "query add($slug: String, $age: I32) { insert Person { slug: $slug, age: $age } }"
UPDATE = "query grow($slug: String, $age: I32) { update Person set { age: $age } where slug = $slug }"
DELETE = "query drop($slug: String) { delete Person where slug = $slug }"
LINK = "query link($slug: String, $to: String) { insert Knows { from: $slug, to: $to } }"
STAYING = 50
# Our own threads and those of Lance that stay; a pool of ours may not have been full at first.
THREADS_MORE = 2
# Lance has as many threads for blocking calls as such calls met, which is a matter of chance, and of few writers.
MOST_POOLED = 24
FILES_MORE = 2
# Folds of the lineage come once in many commits, and once in as many folds one that is larger.
EACH_MORE = 0.1


@dataclass(frozen=True)
class Ground:
    """Where a graph is, and what counts there: files on a disk, calls on an object store."""

    uri: str
    counted: Callable[[], int]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """What was found in a stretch of commits."""

    open_files: float
    threads: float
    pooled: int
    each: float


@pytest.fixture(params=STORES)
def ground(request, tmp_path):
    if request.param == "local":
        return Ground(f"{tmp_path}/g", lambda: sum(path.is_file() for path in Path(tmp_path, "g").rglob("*")))
    endpoint = request.getfixturevalue("clean_s3_endpoint")
    return Ground(endpoint.fresh_prefix(), endpoint.last_sequence, endpoint.storage_options)


def windows(ground: Ground, *stretches: range) -> Iterator[Window]:
    """Make one commit after the other, and yield what was found in each of the stretches."""
    settings = TxnSettings(durability="relaxed")
    with omnigraph.init(ground.uri, SCHEMA, storage_options=ground.options or None, settings=settings) as graph:
        graph.load({"Person": [{"slug": f"staying-{number}"} for number in range(STAYING)]})
        done = 0
        for stretch in stretches:
            for number in range(done, stretch.start):
                write(graph, number)
            before, held = ground.counted(), []
            for number in stretch:
                write(graph, number)
                held.append(Footprint.now())
            done = stretch.stop
            yield Window(
                # What grows is held at most looks; at single ones the pools of the storage layer hold more.
                open_files=median(look.open_files for look in held),
                threads=median(look.threads - look.pooled for look in held),
                pooled=max(look.pooled for look in held),
                each=(ground.counted() - before) / len(stretch),
            )


def write(graph: omnigraph.Graph, number: int) -> None:
    """Make one commit of one row; of five in a row two insert, and one each updates, deletes and inserts an edge."""
    staying, other = (f"staying-{step * number % STAYING}" for step in (7, 11))
    match number % 5:
        case 0 | 1:
            graph.mutate(INSERT, {"slug": f"person-{number}", "age": number % 90})
        case 2:
            graph.mutate(UPDATE, {"slug": staying, "age": number % 90})
        case 3:
            graph.mutate(DELETE, {"slug": f"person-{number - 2}"})
        case _:
            graph.mutate(LINK, {"slug": staying, "to": other})


def assert_flat(early: Window, late: Window) -> None:
    assert late.open_files <= early.open_files + FILES_MORE
    assert late.threads <= early.threads + THREADS_MORE
    assert late.pooled <= MOST_POOLED
    assert late.each <= early.each + EACH_MORE


@pytest.mark.more
def test_a_process_holds_and_a_commit_costs_the_same_after_hundreds_of_commits(ground):
    assert_flat(*windows(ground, range(200, 300), range(500, 600)))


@pytest.mark.more
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_process_holds_and_a_commit_costs_the_same_after_ten_thousand_commits(ground):
    assert_flat(*windows(ground, range(200, 600), range(9_600, 10_000)))
