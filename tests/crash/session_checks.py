"""What a session's graph shows, and what must be true of it after any crash."""

from __future__ import annotations

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType
from tests.crash.checks import assert_history_tells, assert_sound, recovery_kinds, state_of, without_indexes


def session_state(session):
    """Everything that a write may change; ids that were made up are left out, for they differ from run to run."""
    catalog = session.catalog()
    made_up = {edge.table_key for edge in catalog.edges.values() if edge.key is None}
    state = {}
    for branch, (tables, *rest) in state_of(session.store).items():
        found = {
            key: (sorted((row[1:] for row in rows), key=repr) if key in made_up else rows, *others)
            for key, (rows, *others) in tables.items()
        }
        state[branch] = (found, *rest)
    return state


def seen_state(kind, storage):
    """The state that a reader sees, whatever lies about of writers that died."""
    with kind.open(storage, mode="read_only") as session:
        return session_state(session)


def assert_agrees(session):
    """Demand that the schema in force, the tables and the ends of the edges fit each other."""
    catalog, snapshot = session.catalog(), session.snapshot()
    owners = {owner.table_key: owner for owner in [*catalog.nodes.values(), *catalog.edges.values()]}
    assert set(snapshot.state.tables) == set(owners)
    rows = {key: snapshot.table(key).read() for key in owners}
    for key, owner in owners.items():
        assert rows[key].schema.names == arrow_schema(owner).names
        if isinstance(owner, EdgeType):
            for end, node in (("src", owner.from_type), ("dst", owner.to_type)):
                ids = rows[catalog.nodes[node].table_key].column("id").to_pylist()
                assert set(rows[key].column(end).to_pylist()) <= set(ids)


def assert_next_mutation_succeeds(kind, storage):
    """Demand that a plain insert goes through and nothing is left behind by it."""
    with kind.open(storage) as session:
        assert session.mutate('query q() { insert Person { name: "next" } }').commit is not None
        assert_agrees(session)
    assert_sound(storage)


def assert_all_or_nothing(crash, storage, twins, inputs):
    """Demand that readers see all of a killed write or nothing, and that it can be made again."""
    before, after = twins.of(crash.kind)
    assert seen_state(crash.writer, storage) == (after if crash.is_visible else before)
    _assert_recovers(crash, storage, twins, inputs)


def assert_same_outcome(broken, storage, twins, inputs):
    """Demand that recoverers who were killed changed nothing about what becomes of the write."""
    seen = without_indexes(seen_state(broken.crash.writer, storage))
    assert seen in [without_indexes(state) for state in twins.of(broken.crash.kind)]
    _assert_recovers(broken.crash, storage, twins, inputs)


def _assert_recovers(crash, storage, twins, inputs):
    before, after = twins.of(crash.kind)
    with crash.writer.open(storage) as session:
        if crash.succeeds:
            assert session_state(session) == after
        else:
            assert without_indexes(session_state(session)) == without_indexes(before)
        assert_agrees(session)
        recovered = recovery_kinds(storage)
        assert recovered == ([] if crash.recovery is None else [crash.recovery])
        assert_history_tells(session.store, crash.writer.branch, recovered)
        assert_sound(storage)
        if not crash.succeeds:
            crash.writer.write(session, inputs)
            assert session_state(session) == after
        crash.writer.assert_done(session, inputs)
    assert_next_mutation_succeeds(crash.writer, storage)


class SessionTwins:
    """The states before and after each of some kinds of write, taken from an undisturbed run."""

    def __init__(self, folder, inputs, kinds):
        self._folder = folder
        self._inputs = inputs
        self._kinds = kinds
        self._known = {}

    def of(self, name: str):
        """The two states of a kind."""
        if name not in self._known:
            kind = self._kinds[name]
            storage = kind.prepare(str(self._folder / name), None, self._inputs)
            before = seen_state(kind, storage)
            with kind.open(storage) as session:
                kind.write(session, self._inputs)
                kind.assert_done(session, self._inputs)
            after = seen_state(kind, storage)
            assert (before != after) == (kind.tables > 0)
            self._known[name] = before, after
        return self._known[name]
