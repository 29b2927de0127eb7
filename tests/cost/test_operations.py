"""What operations of the public API cost, which the documentation tells: the table is exact, in both directions."""

import tomllib
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

import omnigraph
from omnigraph.testing.s3 import measure
from tests.cost.hops import LOOKS as HOP_LOOKS
from tests.cost.hops import fewest_hops, is_awaited

pytestmark = pytest.mark.more

TABLE = tomllib.loads(Path(__file__).with_name("operations.toml").read_text(encoding="utf-8"))["operation"]
SCHEMA = "node Person { name: String @key }\nnode Team { name: String @key }\nedge In: Person -> Team"
PERSON = "query one($n: String) { insert Person { name: $n } }"
THREE = "query three($n: String) { insert Person { name: $n } insert Team { name: $n } insert In { from: $n, to: $n } }"
COUNT = "query people() { match { $p: Person } return { count($p) as n } }"
DEPTHS = (4, 40)
# The endpoint is looked at as often as this; a fold, which is rare, makes a look dearer and never cheaper.
LOOKS = 3


class World:
    """A graph of some commits, and for every operation a function that prepares it and returns what is measured."""

    def __init__(self, endpoint, depth, stack):
        self.endpoint, self._names, self._stack = endpoint, count(), stack
        self.root, self.options = endpoint.fresh_prefix(), dict(endpoint.storage_options)
        self.graph = stack.enter_context(omnigraph.init(self.root, SCHEMA, storage_options=self.options))
        for _ in range(depth):
            self.graph.mutate(THREE, {"n": self.fresh()})
        self.graph.query(COUNT).rows()
        self.source = self.branch()
        self.source.mutate(PERSON, {"n": self.fresh()})
        # The first of each warms what the process keeps.
        self.branch("main"), self.branch(self.source.name)

    def fresh(self):
        return f"x{next(self._names)}"

    def branch(self, at="main"):
        return self.graph.create_branch(self.fresh(), at=str(at))

    def write(self):
        return lambda: self.graph.mutate(PERSON, {"n": self.fresh()})

    def write_three(self):
        return lambda: self.graph.mutate(THREE, {"n": self.fresh()})

    def first_write_on_branch(self):
        branch = self.branch()
        return lambda: branch.mutate(PERSON, {"n": self.fresh()})

    def create_branch(self):
        return self.branch

    def create_branch_from_branch(self):
        return lambda: self.branch(self.source.name)

    def delete_branch(self):
        return self.branch().delete

    def create_tag(self):
        return lambda: self.graph.create_tag(self.fresh())

    def open(self):
        return lambda: self._stack.enter_context(omnigraph.open(self.root, storage_options=self.options))

    def log(self):
        return lambda: self.graph.log(limit=5)

    def query(self):
        return lambda: self.graph.query(COUNT).rows()


@pytest.fixture(scope="module", params=DEPTHS)
def world(request, s3_endpoint):
    s3_endpoint.restore_defaults()
    with ExitStack() as stack:
        yield World(s3_endpoint, request.param, stack)
    s3_endpoint.restore_defaults()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["name"])
def test_an_operation_costs_what_the_documentation_tells(world, row):
    counts = (lambda _: True) if row.get("waits_for_release") else is_awaited
    runs = [getattr(world, row["name"])() for _ in range(LOOKS + HOP_LOOKS)]
    found = []
    for _ in range(LOOKS):
        with measure(world.endpoint) as measured:
            runs.pop()()
        found.append(sum(map(counts, measured.calls)))
    assert min(found) == row["calls"], found

    def run():
        runs.pop()()

    assert fewest_hops(world.endpoint, run, row["hops"], counts=counts) == row["hops"]
