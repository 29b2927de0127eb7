"""A small graph with two branches to merge, and short ways to change each of them."""

from __future__ import annotations

import shutil

from omnigraph.engine.mutate.values import rows_of
from omnigraph.errors import MergeConflictsError
from omnigraph.history.merge import merge_branch
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.session_graph import create_graph, open_session, read_graph

DRAFT = "draft"
PEOPLE = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "Alice", "age": 30}}
{"type": "Person", "data": {"name": "Bob"}}
{"type": "Person", "data": {"name": "Carol"}}
{"type": "Person", "data": {"name": "Dan"}}
{"edge": "Knows", "from": "Bob", "to": "Carol", "data": {"id": "bc"}}
"""


class Template:
    """A graph that is made once and copied for every test that changes it."""

    def __init__(self, folder, schema=PEOPLE, seed=SEED, *, branches=(DRAFT,)):
        self._folder = folder
        self.original = folder / "original"
        self._count = 0
        create_graph(self.original, schema, seed)
        with open_session(self.original) as session:
            for name in branches:
                session.store.create_branch(BranchName(name))

    def open(self, **options):
        """Open a copy of its own."""
        self._count += 1
        copy = self._folder / f"copy{self._count}"
        shutil.copytree(self.original, copy)
        return open_session(copy, **options)


def change(session, text, branch=MAIN, **params):
    """Run the statements of one mutation on a branch."""
    return session.mutate(f"query change() {{ {text} }}", params or None, branch=branch, actor="tester")


def conflicts_of(session, source=DRAFT, target=MAIN, **options):
    """Merge and return the conflicts, none when it went through."""
    try:
        merge_branch(session, source, target, **options)
    except MergeConflictsError as error:
        return error.details.items
    return ()


def kinds_of(conflicts):
    """What each conflict is and what it is about."""
    return [(conflict.kind, conflict.type_key, conflict.entity_id) for conflict in conflicts]


def head_of(session, branch=MAIN):
    """The newest commit of a branch."""
    return session.snapshot(branch).state.head.commit


def history_of(session, branch=MAIN):
    """The commits of a branch, newest first."""
    return list(session.store.iter_commits(session.snapshot(branch)))


def contents(session, branch=MAIN):
    """The rows of a branch by type; edges without their ids, which were made up."""
    graph = read_graph(session, branch)
    return {key: sorted(map(repr, rows.values())) if key.startswith("edge:") else rows for key, rows in graph.items()}


def put(session, table_key, rows, branch=MAIN):
    """Write whole rows by id as one commit; None removes the row. Nothing is checked."""
    branch_writer = session.store.branch_writer(BranchName(branch))
    return branch_writer.commit(_writing(session, branch, "tester", {table_key: rows}))


def put_together(session, writes, branch=MAIN):
    """Write the rows of several actors, by table, as commits of one version; return these by actor."""
    txns = [_writing(session, branch, actor, tables) for actor, tables in writes.items()]
    outcomes = session.store.branch_writer(BranchName(branch))._run(txns)
    assert len({outcome.manifest_version for outcome in outcomes}) == 1
    return {actor: outcome.commit for actor, outcome in zip(writes, outcomes, strict=True)}


def _writing(session, branch, actor, tables):
    catalog = session.catalog(branch)
    txn = session.store.branch_writer(BranchName(branch)).begin(WriteKind.MUTATE, actor=actor)
    for key, rows in tables.items():
        kind, _, name = key.partition(":")
        owner = (catalog.nodes if kind == "node" else catalog.edges)[name]
        written = [{"id": entity_id, **row} for entity_id, row in rows.items() if row is not None]
        if written:
            txn.upsert(key, rows_of(owner, written))
        txn.delete(key, [entity_id for entity_id, row in rows.items() if row is None])
    return txn
