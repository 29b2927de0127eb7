"""Search over stored tables: the answer does not depend on indexes, fragments, or the way a version came about."""

import numpy as np
import pyarrow as pa
import pytest
from tests.text_tables import no_limit

from omnigraph.engine.query.search import TextIndexes, nearest, rank_order
from omnigraph.engine.query.topology import TopologyCache
from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.staging import IndexBuild, stage_change, stage_compaction, stage_create, stage_indexes
from omnigraph.store.tables.store import TableStore

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("title", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
WORDS = ("graph", "graphs", "storage", "notes", "café", "running")


def row(number, step=0):
    words = [WORDS[(number * 7 + place * (step + 3)) % len(WORDS)] for place in range(number % 5 + 1)]
    title = None if number % 11 == 10 else " ".join(words)
    vec = None if number % 7 == 6 else [float(number % 4), float(step)]
    return {"id": f"d{number:03}", "title": title, "vec": vec}


def rows(numbers, step=0):
    return pa.Table.from_pylist([row(number, step) for number in numbers], schema=SCHEMA)


class Stored:
    """A table of documents and the caches that read it."""

    def __init__(self, root):
        self.runtime = Runtime.system()
        self.datasets = DatasetStore(Storage.open(root), self.runtime)
        self.tables = TableStore(self.datasets, self.datasets.control)
        self.topology = TopologyCache()
        self.texts = TextIndexes()
        self.pin = self.land(stage_create(self.datasets, "nodes/1", SCHEMA, rows(range(60)), **self.origin))

    @property
    def origin(self):
        return {"operation_id": str(self.runtime.ids.ulid()), "runtime": self.runtime}

    @property
    def table(self):
        return self.tables.open(self.pin)

    def land(self, staged):
        return self.tables.commit(staged)

    def change(self, **what):
        self.pin = self.land(stage_change(self.table, **what, **self.origin))

    def index(self):
        builds = [
            IndexBuild(column="title", kind="fulltext", name="title_idx"),
            IndexBuild(column="vec", kind="vector", name="vec_idx"),
        ]
        self.pin = self.land(stage_indexes(self.table, builds, **self.origin).commit)

    def compact(self):
        self.pin = self.land(stage_compaction(self.table, **self.origin))

    def answers(self, topology=None, texts=None):
        """What several searches find, by id."""
        image = (topology or self.topology).image(self.table)
        index = (texts or self.texts).get(image, "title", no_limit)
        ids = image.column("id")
        found = {}
        for query in ("graph", "running cafe", "the", "storage notes graph"):
            codes, scores = index.scores(query)
            order = rank_order(scores, codes, image.id_ranks, is_descending=True)
            found[query] = list(zip(ids.take(codes[order]).to_pylist(), scores[order].tolist(), strict=True))
            assert sorted(codes[order]) == index.matches(query).tolist()
        found["fuzzy"] = sorted(ids.take(index.fuzzy("grpah", 2)).to_pylist())
        vectors = image.column("vec")
        codes, distances = nearest(vectors, [1.0, 0.5], 7, image.id_ranks)
        found["nearest"] = list(zip(ids.take(codes).to_pylist(), distances.tolist(), strict=True))
        return found

    def fresh_answers(self):
        """The same from the same rows in a table of their own, with nothing kept in memory and no index."""
        content = self.table.read().sort_by("id")
        location = f"nodes/{self.runtime.ids.ulid()}"
        pin, self.pin = (
            self.pin,
            self.land(stage_create(self.datasets, location, SCHEMA, content.select(SCHEMA.names), **self.origin)),
        )
        answers = self.answers(TopologyCache(), TextIndexes())
        self.pin = pin
        return answers


@pytest.fixture
def stored(tmp_path):
    return Stored(tmp_path / "graph")


def test_indexes_change_no_answer(stored):
    without = stored.answers()
    assert [name for name, found in without.items() if not found] == ["the"]
    stored.index()
    assert stored.answers() == without


def test_every_state_of_a_table_answers_as_its_rows_do(stored):
    steps = [
        stored.index,
        lambda: stored.change(upserts=rows(range(60, 75), step=1)),
        lambda: stored.change(deletes=[f"d{number:03}" for number in range(0, 30, 3)]),
        lambda: stored.change(upserts=rows(range(20, 28), step=2)),
        stored.compact,
        stored.index,
        lambda: stored.change(upserts=rows([90], step=4), deletes=["d001"]),
    ]
    for step in steps:
        stored.answers()
        step()
        assert stored.answers() == stored.fresh_answers()
    assert stored.texts.stats.builds == 1
    assert stored.texts.stats.extensions == len(steps)


def test_an_earlier_version_still_answers_as_it_did(stored):
    before, pin = stored.answers(), stored.pin
    stored.change(upserts=rows(range(10), step=5))
    after = stored.answers()
    stored.pin = pin
    assert stored.answers() == before != after
    assert stored.answers(TopologyCache(), TextIndexes()) == before


def test_deleting_every_row_leaves_nothing_to_find(stored):
    stored.answers()
    stored.change(deletes=[f"d{number:03}" for number in range(60)])
    assert all(not found for found in stored.answers().values())


def test_no_column_stays_in_memory_for_an_index(stored):
    image = stored.topology.image(stored.table)
    stored.texts.get(image, "title", no_limit)
    assert not image.has_column("title")
    assert not image.has_column("vec")
    assert np.array_equal(image.codes_of(image.row_ids), np.arange(image.row_count))
