"""The engines that the query benchmark compares, loaded from the same Parquet files and asked in their own language."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from bench.generate import SCHEMA_PATH
from bench.load import LADYBUG_TABLES
from bench.query_cases import DIMENSION, Case, GraphName, Parameters
from tests.session import Session

from omnigraph.catalog.model import index_intents
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage
from omnigraph.store.staging import IndexBuild
from omnigraph.txn.changes import IndexBuilds
from omnigraph.txn.publish.plan import WriteKind
from omnigraph.values import MAIN, BranchName

Rows = list[tuple[Any, ...]]
Files = dict[GraphName, Sequence[Path]]

_ITEMS_SCHEMA = f"node Item {{ slug: String @key  title: String  vec: Vector({DIMENSION}) }}"
_ITEM_TABLE = f"NODE TABLE Item(slug STRING PRIMARY KEY, title STRING, vec FLOAT[{DIMENSION}])"
_QUERY_TIMEOUT_MS = 120_000


class Engine(ABC):
    """A database in a folder of its own."""

    name: str

    @staticmethod
    @abstractmethod
    def load(files: Files, work: Path) -> None:
        """Make the database, with the indexes that it is meant to be used with."""

    @abstractmethod
    def ask(self, case: Case, parameters: Parameters) -> Rows:
        """Run a question to its end and return its rows as Python values."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    @classmethod
    def is_installed(cls) -> bool:
        """Whether it can be measured here."""
        return True

    @staticmethod
    @abstractmethod
    def text_of(case: Case) -> str | None:
        """Return the question in its language; None when it cannot be put to it."""


class _Omnigraph(Engine):
    """This project, with every index that the schema wants."""

    name = "omnigraph"

    def __init__(self, work: Path) -> None:
        self._work = work
        self._sessions: dict[GraphName, Session] = {}

    @staticmethod
    def load(files: Files, work: Path) -> None:
        for graph, schema in (("social", SCHEMA_PATH.read_text(encoding="utf-8")), ("items", _ITEMS_SCHEMA)):
            storage = Storage.open(str(work / graph))
            init_graph(storage, schema)
            with Session.open(storage) as session:
                session.load([str(path) for path in files[graph]])
                _build_indexes(session)

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        session = self._session(case.graph)
        if case.is_write:
            done = session.mutate(case.gq, parameters)
            # Other engines count a row that had the value already as well.
            return [(done.updated + done.unchanged,)]
        result = session.query(case.gq, parameters)
        return [tuple(row.values()) for row in result.rows()]

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    @staticmethod
    def text_of(case: Case) -> str | None:
        return case.gq

    def _session(self, graph: GraphName) -> Session:
        session = self._sessions.get(graph)
        if session is None:
            session = Session.open(Storage.open(str(self._work / graph)))
            self._sessions[graph] = session
        return session


class _Ladybug(Engine):
    """A graph database that runs inside the process; its text search is an extension that is not part of it."""

    name = "ladybug"

    def __init__(self, work: Path) -> None:
        import ladybug  # noqa: PLC0415 - it may be absent

        self._database = ladybug.Database(str(work / "ladybug"))
        self._connection = ladybug.Connection(self._database)
        self._connection.set_query_timeout(_QUERY_TIMEOUT_MS)

    @staticmethod
    def load(files: Files, work: Path) -> None:
        engine = _Ladybug(work)
        engine._connection.set_query_timeout(0)
        for path in (*files["social"], *files["items"]):
            engine._connection.execute(f"CREATE {LADYBUG_TABLES.get(path.stem, _ITEM_TABLE)}")
            engine._connection.execute(f'COPY {path.stem} FROM "{path}"')
        engine.close()

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        return [tuple(row) for row in self._connection.execute(case.cypher, parameters).get_all()]

    def close(self) -> None:
        self._connection.close()
        self._database.close()

    @classmethod
    def is_installed(cls) -> bool:
        return importlib.util.find_spec("ladybug") is not None

    @staticmethod
    def text_of(case: Case) -> str | None:
        return case.cypher


class _DuckDb(Engine):
    """A column store: plain tables with an index on the keys; its text search is an extension too."""

    name = "DuckDB"

    def __init__(self, work: Path) -> None:
        self._connection = duckdb.connect(str(work / "tables.duckdb"))

    @staticmethod
    def load(files: Files, work: Path) -> None:
        engine = _DuckDb(work)
        for path in (*files["social"], *files["items"]):
            vector = f" REPLACE (vec::FLOAT[{DIMENSION}] AS vec)" if path.stem == "Item" else ""
            rows = f"SELECT *{vector} FROM read_parquet('{path}')"  # noqa: S608 - names of our own files
            engine._connection.execute(f"CREATE TABLE {path.stem} AS {rows}")
            if path.stem in {"Person", "Organisation", "Post", "Item"}:
                engine._connection.execute(f"CREATE UNIQUE INDEX {path.stem}_slug ON {path.stem}(slug)")
        engine.close()

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        return self._connection.execute(case.sql, parameters or None).fetchall()

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def text_of(case: Case) -> str | None:
        return case.sql


ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (_Omnigraph, _Ladybug, _DuckDb)}


def _build_indexes(session: Session) -> None:
    catalog = session.catalog()
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.ENSURE_INDICES)
    for owner in [*catalog.nodes.values(), *catalog.edges.values()]:
        builds = [
            IndexBuild(column=intent.column, kind=intent.kind.value, name=intent.name)
            for intent in index_intents(owner)
        ]
        txn.change(IndexBuilds(table_key=owner.table_key, builds=tuple(builds)))
    branch_writer.commit(txn)
