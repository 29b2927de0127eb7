"""The writes that a user makes, each with a graph to write to: mutations, loads in every mode, change logs, schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.engine.open_graph import init_graph
from omnigraph.history.feed.tokens import FeedCursor, encode_token
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.writes import LoadRequest, MutateRequest
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.store.sequence_runs import SequencePlace
from omnigraph.values import MAIN
from tests.crash.kinds import ACTOR
from tests.session import Session
from tests.session_graph import RELAXED

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String? }
node Team { name: String @key  motto: String? }
edge Knows: Person -> Person { since: Date?  @key(src, dst) }
edge WorksAt: Person -> Team { role: String? }
"""
OTHER_SCHEMA = """
node Person { name: String @key  age: I32?  email: String? }
node Group @rename_from("Team") { name: String @key  slogan: String? @rename_from("motto") }
node City { name: String @key }
edge Knows: Person -> Person { since: Date?  @key(src, dst) }
"""
MUTATION = """
query change() {
    insert Person { name: "dan", age: 3 }
    insert Knows { from: "dan", to: "ann" }
    update Person set { age: 37 } where name = "ann"
    update Team set { motto: "slower" } where name = "red"
    delete Person where name = "bob"
}
"""
INPUTS = {
    "seed.jsonl": """
{"type": "Person", "data": {"name": "ann", "age": 36, "nick": "a"}}
{"type": "Person", "data": {"name": "bob"}}
{"type": "Person", "data": {"name": "cem", "age": 7}}
{"type": "Team", "data": {"name": "red", "motto": "faster"}}
{"edge": "Knows", "from": "ann", "to": "bob", "data": {"since": "2020-05-01"}}
{"edge": "Knows", "from": "bob", "to": "cem"}
{"edge": "WorksAt", "from": "ann", "to": "red", "data": {"role": "lead"}}
{"edge": "WorksAt", "from": "bob", "to": "red"}
""",
    "append.jsonl": """
{"type": "Person", "data": {"name": "eve", "age": 20}}
{"type": "Person", "data": {"name": "fay", "nick": "f"}}
{"edge": "Knows", "from": "eve", "to": "ann", "data": {"since": "2021-01-01"}}
{"edge": "WorksAt", "from": "fay", "to": "red", "data": {"role": "cook"}}
""",
    "merge.jsonl": """
{"type": "Person", "data": {"name": "ann", "age": 40}}
{"type": "Person", "data": {"name": "eve"}}
{"edge": "Knows", "from": "ann", "to": "bob", "data": {"since": "2022-02-02"}}
{"edge": "Knows", "from": "eve", "to": "ann"}
""",
    "patch.jsonl": """
{"type": "Person", "data": {"name": "ann", "age": 41}}
{"type": "Team", "data": {"name": "blue", "motto": "deeper"}}
""",
    "overwrite.jsonl": """
{"type": "Person", "data": {"name": "cem", "age": 8}}
{"type": "Person", "data": {"name": "gus"}}
{"edge": "Knows", "from": "cem", "to": "gus"}
{"edge": "WorksAt", "from": "gus", "to": "red", "data": {"role": "cook"}}
""",
    # Out of order: a person is new, one is patched, one goes and takes edges of both types along.
    "apply.jsonl": """
{"type": "Person", "_op": "delete", "_seq": 9, "data": {"name": "bob"}}
{"type": "Person", "_op": "patch", "_seq": 4, "data": {"name": "ann", "age": 37}}
{"type": "Person", "_seq": 2, "data": {"name": "dan", "age": 1}}
{"type": "Person", "_seq": 1, "data": {"name": "bob", "age": 50}}
{"type": "Person", "_op": "patch", "_seq": 3, "data": {"name": "dan", "age": 3}}
{"type": "Team", "_op": "patch", "_seq": 5, "data": {"name": "red", "motto": "slower"}}
{"edge": "Knows", "_seq": 6, "from": "dan", "to": "ann", "data": {"since": "2023-03-03"}}
{"edge": "Knows", "_seq": 7, "from": "dan", "to": "bob"}
""",
}
STREAM = ("orders", 7)
PARQUET = {
    "Person.parquet": pa.table({"name": ["hal", "ida"], "age": pa.array([1, None], pa.int32())}),
    "Knows.parquet": pa.table({"from": ["hal", "ida"], "to": ["ann", "hal"]}),
}


def write_inputs(folder: Path) -> Path:
    """Write the files that the loads read."""
    for name, lines in INPUTS.items():
        (folder / name).write_text(lines.lstrip(), encoding="utf-8")
    for name, rows in PARQUET.items():
        pq.write_table(rows, folder / name)
    return folder


@dataclass(frozen=True, kw_only=True)
class SessionKind:
    """One kind of write through a session.

    Args:
        name: what the cases are called.
        tables: how many tables phase A finds staged.
        commits: how many of them phase B moves.
        batches: how often rows of a load are put aside before anything is staged.
        write: the write, on an open graph and with the folder that holds the inputs.
        branch: the branch it goes to.
    """

    name: str
    tables: int
    commits: int
    batches: int = 0
    write: Callable[[Session, Path], object]
    branch: str = MAIN

    def prepare(self, root: str, options: dict[str, str] | None, inputs: Path) -> Storage:
        """Make the graph that the write will change."""
        storage = Storage.open(root, options)
        init_graph(storage, SCHEMA, settings=RELAXED)
        with self.open(storage) as session:
            session.load([str(inputs / "seed.jsonl")], actor="seed")
        return storage

    def open(self, storage: Storage, *, runtime: Runtime | None = None, mode: str = "read_write") -> Session:
        """Open the graph."""
        return Session.open(storage, settings=RELAXED, runtime=runtime, mode=mode)

    def run(self, storage: Storage, runtime: Runtime, inputs: Path) -> None:
        """Open the graph, write, and close it."""
        with self.open(storage, runtime=runtime) as session:
            self.write(session, inputs)

    def assert_done(self, session: Session, inputs: Path) -> None:
        """Demand what must be true after the write beyond the state that it leaves."""


def _mutate(session, inputs):
    session.mutate(MUTATION, actor=ACTOR)


def _transact(session, inputs):
    begun = session.begin_transaction(actor=ACTOR).transaction

    def call(request):
        return session.call_in_transaction(begun, request)

    call(MutateRequest(text='query a() { insert Person { name: "dan", age: 3 } }'))
    call(LoadRequest(sources=[str(inputs / "append.jsonl")]))
    assert len(call(QueryRequest(text="query n() { match { $p: Person } return { $p.name } }"))) == 6
    call(MutateRequest(text='query u() { update Team set { motto: "slower" } where name = "red" }'))
    call(MutateRequest(text='query d() { delete Person where name = "bob" }'))
    session.commit_transaction(begun)


def _load(mode, *names, **options):
    def write(session, inputs):
        session.load([str(inputs / name) for name in names], mode, actor=ACTOR, **options)

    return write


def _apply_log(session, inputs):
    return session.load([str(inputs / "apply.jsonl")], "apply", batch=STREAM, actor=ACTOR)


def _apply(*, allow_data_loss):
    def write(session, inputs):
        session.apply_schema(OTHER_SCHEMA, actor=ACTOR, allow_data_loss=allow_data_loss)

    return write


def _told(kind, name, entity_id, op, properties=None, **ends):
    after = {} if properties is None else {"after": {"properties": properties}}
    if ends:
        after["after"]["endpoints"] = {"from": ends["source"], "to": ends["target"]}
    return {"kind": kind, "type": {"id": name, "name": name}, "id": entity_id, "op": op, **after}


# Two commits of another graph, the second of which the first line has only a part of.
_PLACES = ({"sequence": 0, "part": 0}, {"sequence": 1, "part": 1}, {"sequence": 2, "part": 0})
_CHANGES = (
    [_told("node", "Person", "dan", "insert", {"name": "dan", "age": 3, "nick": None})],
    [_told("node", "Person", "ann", "update", {"name": "ann", "age": 37, "nick": None})],
    [
        _told("node", "Team", "red", "update", {"name": "red", "motto": "slower"}),
        _told("node", "Person", "bob", "delete"),
        _told("edge", "WorksAt", "w9", "insert", {"role": "cook"}, source="dan", target="red"),
    ],
)


def _feed_token(last):
    scope = {"graph": "g", "branch": "b", "incarnation": "i", "filter": "f"}
    return encode_token(FeedCursor(**scope, last=last))


def _batches():
    def block(commit, changes):
        return {"cause": {"graph_commit_id": commit}, "changes": changes}

    first, second, third = _CHANGES
    blocks = ([block("c1", first), block("c2", second)], [block("c2", third)])
    return [
        {"source": "feed", "begin": begin, "end": end, "blocks": some, "token": _feed_token(f"c{number}")}
        for number, (begin, end, some) in enumerate(zip(_PLACES, _PLACES[1:], blocks, strict=False), start=1)
    ]


def _apply_feed(session, inputs):
    session.apply_changes(_batches(), actor=ACTOR)


@dataclass(frozen=True, kw_only=True)
class FeedKind(SessionKind):
    """A write that takes over a feed: done once, it is done however often it is asked for."""

    def assert_done(self, session: Session, inputs: Path) -> None:
        """Demand that the rows and how far the feed was applied have come together, and once."""
        done = session.apply_changes(_batches(), actor=ACTOR)
        assert (done.repeated, done.commit) == (5, None)
        assert [(one.source, one.token) for one in session.applied_feeds()] == [("feed", _feed_token("c2"))]
        assert [commit.operation for commit in session.log().commits].count("apply_changes") == 1


@dataclass(frozen=True, kw_only=True)
class LogKind(SessionKind):
    """A write that applies a piece of a change log: done once, it is done however often it is asked for."""

    def assert_done(self, session: Session, inputs: Path) -> None:
        """Demand that the rows, the number of the piece and its sequences have come together, and once."""
        first, *others = [commit for commit in session.log().commits if commit.batch is not None]
        assert ((first.batch.app, first.batch.number), others) == (STREAM, [])
        again = self.write(session, inputs)
        assert (again.is_repeat, again.commit) == (True, first)
        assert [commit.operation for commit in session.log().commits].count("load_apply") == 1
        (run,) = session.snapshot().state.sequences[STREAM[0]].runs
        told = SequencePlace(storage=session.store.storage).read(run.name).to_pylist()
        assert {row["id"]: (row["seq"], row["died"]) for row in told if row["id"] in {"ann", "bob", "dan", "red"}} == {
            "ann": (4, None),
            "bob": (9, 9),
            "dan": (3, None),
            "red": (5, None),
        }


SESSION_KINDS = {
    kind.name: kind
    for kind in (
        SessionKind(name="mutate", tables=4, commits=4, write=_mutate),
        SessionKind(name="load_append", tables=3, commits=3, batches=3, write=_load("append", "append.jsonl")),
        SessionKind(name="load_merge", tables=2, commits=2, batches=2, write=_load("merge", "merge.jsonl")),
        SessionKind(name="load_patch", tables=2, commits=2, batches=2, write=_load("merge", "patch.jsonl", patch=True)),
        SessionKind(name="load_overwrite", tables=3, commits=3, batches=3, write=_load("overwrite", "overwrite.jsonl")),
        SessionKind(name="load_parquet", tables=2, commits=2, batches=2, write=_load("append", *PARQUET)),
        SessionKind(name="schema_apply", tables=4, commits=2, write=_apply(allow_data_loss=False)),
        LogKind(name="load_apply", tables=4, commits=4, batches=3, write=_apply_log),
        FeedKind(name="apply_changes", tables=4, commits=4, write=_apply_feed),
        SessionKind(name="transaction", tables=4, commits=4, batches=3, write=_transact),
        SessionKind(name="schema_apply_hard", tables=4, commits=2, write=_apply(allow_data_loss=True)),
    )
}
