"""The engines that the benchmarks of reads compare, loaded from the same Parquet files and asked in their own language.

Nothing here loads a library before its engine is used: what opening a database costs is measured, too.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.generate import SCHEMA_PATH
from bench.query_cases import DIMENSION, Case, GraphName, Parameters

Rows = list[tuple[Any, ...]]
Files = dict[GraphName, Sequence[Path]]

NODES = ("Person", "Organisation", "Post", "Item")
CYPHER_TABLES = {
    "Person": "NODE TABLE Person(slug STRING PRIMARY KEY, name STRING, age INT32, country STRING, joined DATE)",
    "Organisation": "NODE TABLE Organisation(slug STRING PRIMARY KEY, name STRING, founded INT32)",
    "Post": "NODE TABLE Post(slug STRING PRIMARY KEY, title STRING, body STRING, posted TIMESTAMP, likes INT64)",
    "Knows": "REL TABLE Knows(FROM Person TO Person, since DATE, weight DOUBLE)",
    "WorksAt": "REL TABLE WorksAt(FROM Person TO Organisation, role STRING)",
    "Created": "REL TABLE Created(FROM Person TO Post, draft BOOLEAN)",
    "Item": f"NODE TABLE Item(slug STRING PRIMARY KEY, title STRING, vec FLOAT[{DIMENSION}])",
}
_ITEMS_SCHEMA = f"node Item {{ slug: String @key  title: String  vec: Vector({DIMENSION}) }}"
_QUERY_TIMEOUT_MS = 120_000


class Engine(ABC):
    """A database in a folder of its own, opened at once."""

    name: ClassVar[str]
    # What is loaded before the clock starts where opening is measured: libraries, never the engine's own modules.
    libraries: ClassVar[tuple[str, ...]] = ()
    # Whether people would pick it instead; anything else shows how far one could get.
    is_peer: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, work: Path) -> None:
        """Open the database that was made in ``work``."""

    @classmethod
    @abstractmethod
    def load(cls, files: Files, work: Path) -> None:
        """Make the database."""

    @classmethod  # noqa: B027 - most have nothing to do
    def prepare(cls, work: Path, graph: GraphName) -> None:
        """Make a graph ready to be read fast, where that is a step of its own."""

    @classmethod  # noqa: B027 - see above
    def index_texts(cls, work: Path) -> None:
        """Make it ready for searches of texts, where that is a step of its own."""

    @classmethod
    def folder(cls, work: Path, graph: GraphName) -> Path:
        """Return where a graph lies, as a file or a folder."""
        return work / cls.name / graph

    @abstractmethod
    def ask(self, case: Case, parameters: Parameters) -> Rows:
        """Run a question to its end and return its rows as Python values."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    @classmethod
    def is_installed(cls) -> bool:
        """Whether it can be measured here."""
        return all(importlib.util.find_spec(name) is not None for name in cls.libraries)

    @classmethod
    def is_comparable(cls, case: Case) -> bool:
        """Whether its answer must be the one of all others; two formulas of relevance rank texts in two ways."""
        del case
        return True

    @classmethod
    @abstractmethod
    def text_of(cls, case: Case) -> str | None:
        """Return the question in its language; None when it cannot be put to it."""


class _Omnigraph(Engine):
    """This project, asked as its users ask it."""

    name = "omnigraph"
    libraries = ("numpy", "pyarrow", "lance")

    def __init__(self, work: Path) -> None:
        import omnigraph  # noqa: PLC0415 - part of what opening costs

        self._work = work
        self._graphs = {"social": omnigraph.open(self.folder(work, "social"))}

    @classmethod
    def load(cls, files: Files, work: Path) -> None:
        import omnigraph  # noqa: PLC0415 - see above

        schemas: dict[GraphName, str] = {"social": SCHEMA_PATH.read_text(encoding="utf-8"), "items": _ITEMS_SCHEMA}
        for graph, paths in files.items():
            cls.folder(work, graph).parent.mkdir(parents=True, exist_ok=True)
            with omnigraph.init(cls.folder(work, graph), schemas[graph]) as made:
                made.load([str(path) for path in paths])

    @classmethod
    def prepare(cls, work: Path, graph: GraphName) -> None:
        import omnigraph  # noqa: PLC0415 - see above

        with omnigraph.open(cls.folder(work, graph)) as loaded:
            loaded.optimize()

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        graph = self._graphs.get(case.graph) or self._open_items()
        if case.is_write:
            done = graph.mutate(case.gq, parameters)
            # Other engines count a row that had the value already as well.
            return [(done.inserted + done.updated + done.unchanged,)]
        return [tuple(row.values()) for row in graph.query(case.gq, parameters).rows()]

    def close(self) -> None:
        for graph in self._graphs.values():
            graph.close()

    @classmethod
    def text_of(cls, case: Case) -> str | None:
        return case.gq

    def _open_items(self) -> Any:
        import omnigraph  # noqa: PLC0415 - see above

        self._graphs["items"] = omnigraph.open(self.folder(self._work, "items"))
        return self._graphs["items"]


class _Cypher(Engine):
    """A graph database that runs inside the process; its text search is an extension that is not part of it."""

    def __init__(self, work: Path) -> None:
        library = importlib.import_module(self.libraries[0])
        path = self.folder(work, "social")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = library.Database(str(path))
        self._connection = library.Connection(self._database)
        self._connection.set_query_timeout(_QUERY_TIMEOUT_MS)
        self._prepared: dict[str, Any] = {}

    @classmethod
    def load(cls, files: Files, work: Path) -> None:
        engine = cls(work)
        engine._connection.set_query_timeout(0)
        for paths in files.values():
            for path in paths:
                engine._connection.execute(f"CREATE {CYPHER_TABLES[path.stem]}")
                engine._connection.execute(f'COPY {path.stem} FROM "{path}"')
        engine.close()

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        assert case.cypher is not None
        prepared = self._prepared.get(case.cypher)
        if prepared is None:
            prepared = self._connection.prepare(case.cypher, parameters)
            self._prepared[case.cypher] = prepared
        return [tuple(row) for row in self._connection.execute(prepared, parameters).get_all()]

    def close(self) -> None:
        self._connection.close()
        self._database.close()

    @classmethod
    def text_of(cls, case: Case) -> str | None:
        return case.cypher


class _Ladybug(_Cypher):
    """The maintained continuation of kuzu."""

    name = "ladybug"
    libraries = ("ladybug",)


class _Kuzu(_Cypher):
    """The last version of kuzu."""

    name = "kuzu"
    libraries = ("kuzu",)


class _DuckDb(Engine):
    """A column store: plain tables with an index on the keys; its text search is an extension too."""

    name = "DuckDB"
    libraries = ("duckdb",)

    def __init__(self, work: Path) -> None:
        import duckdb  # noqa: PLC0415 - part of what opening costs

        path = self.folder(work, "social")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(str(path))

    @classmethod
    def load(cls, files: Files, work: Path) -> None:
        engine = cls(work)
        for path in (path for paths in files.values() for path in paths):
            vector = f" REPLACE (vec::FLOAT[{DIMENSION}] AS vec)" if path.stem == "Item" else ""
            rows = f"SELECT *{vector} FROM read_parquet('{path}')"  # noqa: S608 - names of our own files
            engine._connection.execute(f"CREATE TABLE {path.stem} AS {rows}")
            if path.stem in NODES:
                engine._connection.execute(f"CREATE UNIQUE INDEX {path.stem}_slug ON {path.stem}(slug)")
        engine.close()

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        assert case.sql is not None
        return self._connection.execute(case.sql, parameters or None).fetchall()

    def close(self) -> None:
        self._connection.close()

    @classmethod
    def text_of(cls, case: Case) -> str | None:
        return case.sql


ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (_Omnigraph, _Ladybug, _Kuzu, _DuckDb)}
