"""What a lookup by key costs does not grow with the table: the same calls, one row, as many bytes, at every size."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.session import Session
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.engine.query.options import QueryOptions
from omnigraph.store.location import Storage
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.projections.keys import KeyIndex
from omnigraph.store.tables import lookup as lookups
from omnigraph.store.tables.table import Table

SCHEMA = "node Person { name: String @key  age: I32? }"
POINT = "query q($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age } }"
INDEXED = QueryOptions(mode="indexed")
SMALL, LARGE, HUGE = 10_000, 200_000, 10_000_000
# A row that is fetched brings the piece of each column that it is in; how long that is does not follow from the table.
MOST_BYTES = 256 << 10
MOST_CALLS = 10
PIECE = 1_000_000


def people_in_pieces(count):
    """Persons p0, p1, … as record batches."""
    for start in range(0, count, PIECE):
        numbers = np.arange(start, min(count, start + PIECE))
        names = pc.binary_join_element_wise("p", pc.cast(pa.array(numbers), pa.string()), "")
        yield pa.record_batch({"name": names, "age": pa.array(numbers % 90, pa.int32())})


def load_people(root, count):
    """Load so many persons as a user would, and return where the graph is; a load leaves small tables to optimize."""
    schema = pa.schema({"name": pa.string(), "age": pa.int32()})
    with omnigraph.init(root / f"graph-{count}", SCHEMA) as graph:
        done = graph.load({"Person": pa.RecordBatchReader.from_batches(schema, people_in_pieces(count))})
        if count == SMALL:
            graph.optimize()
        else:
            assert [(one.kind, one.rows, one.error) for one in done.projections] == [("keys", count, None)]
    return Storage.open(str(root / f"graph-{count}"))


def cost_of(session, name):
    """The age of a person, and what asking for it cost."""
    result = session.query(POINT, {"name": name}, options=INDEXED)
    return [row["p.age"] for row in result.rows()], result.cost


class Watch:
    """How many rows lookups compare and fetch, and how often they look at a column or an index."""

    def __init__(self, monkeypatch):
        self.compared, self.taken, self.scans = [], [], []
        find, take = KeyIndex.find, Table.take

        def watched_find(index, hashes):
            found = find(index, hashes)
            self.compared.append(len(found.wanted))
            return found

        def watched_take(table, ids, names):
            self.taken.append(len(ids))
            return take(table, ids, names)

        monkeypatch.setattr(KeyIndex, "find", watched_find)
        monkeypatch.setattr(Table, "take", watched_take)
        for name in ("_scan_for", "_scan_fragments", "_through_index", "read_tail"):
            monkeypatch.setattr(lookups, name, lambda *_, name=name, **__: self.scans.append(name))


def lookups_of(root, count, monkeypatch):
    """Ask a fresh process for a few persons, and for the one beside each; return what the answers cost, in order."""
    storage = load_people(root, count)
    [keys] = storage.path(PROJECTIONS_PREFIX).rglob("keys.*")
    # Four bytes of a hash, four of a place, a little for buckets, and a header that names the files.
    assert 8 * count <= keys.stat().st_size <= 8.3 * count + 4096
    asked = [number + beside for number in (count // 2, 0, count // 3, count - 2) for beside in (0, 1)]
    with monkeypatch.context() as patched, Session.open(storage, settings=RELAXED) as session:
        watch = Watch(patched)
        answers = [cost_of(session, f"p{number}") for number in asked]
        nobody, nothing = cost_of(session, "q17")
        assert [found for found, _ in answers] == [[number % 90] for number in asked]
        assert nobody == []
        # For who is not there, no row is compared.
        assert [count for count in watch.compared if count] == [1] * len(asked)
        assert watch.taken == [1] * len(asked)
        assert watch.scans == []
    first, *later = [cost for _, cost in answers]
    assert first.calls["projection.map"] == 1
    assert first.bytes_read <= keys.stat().st_size + MOST_BYTES
    assert all(set(cost.calls) == {"lance.read"} for cost in later)
    assert max(cost.bytes_read for cost in later) <= MOST_BYTES
    assert nothing.total_calls == 0
    return first, later


def assert_flat(root, large, monkeypatch):
    """A lookup among many rows makes the calls of one among few, and reads no more than a piece of each column."""
    (first, later), (first_of_many, later_of_many) = (lookups_of(root, one, monkeypatch) for one in (SMALL, large))
    assert set(first.calls) == set(first_of_many.calls)
    # The first row of a data file brings the description of its columns as well.
    beside, beside_of_many = later[::2], later_of_many[::2]
    assert max(cost.total_calls for cost in beside_of_many) <= max(cost.total_calls for cost in beside)
    assert max(cost.total_calls for cost in later_of_many) <= MOST_CALLS


def test_a_lookup_costs_the_same_among_few_and_many_rows(tmp_path, monkeypatch):
    assert_flat(tmp_path, LARGE, monkeypatch)


@pytest.mark.more
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_lookup_costs_the_same_among_ten_million_rows(tmp_path, monkeypatch):
    assert_flat(tmp_path, HUGE, monkeypatch)
