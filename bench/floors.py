"""How far reads could get: arrays of numpy that are mapped from files, and bare tables of Lance, for a few questions.

Both are written for these questions alone, check nothing, and cannot be changed by anybody else meanwhile. What they
answer is compared like every other answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench.generate import EDGES
from bench.query_cases import INSERT, Case, Parameters
from bench.query_engines import NODES, Engine, Files, Rows

Ids = npt.NDArray[np.int64]
_OLD_ENOUGH, _SHOWN, _NEAREST = 30, 20, 10
_COUNTRY = "country"


class _Numpy(Engine):
    """Persons as dense numbers, whom they know as sorted lists one after the other."""

    name = "numpy"
    libraries = ("numpy",)
    is_peer = False

    def __init__(self, work: Path) -> None:
        folder = self.folder(work, "social")
        arrays = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
        # A view without the class of mapped arrays, whose every slice costs microseconds.
        self._arrays = {name: np.asarray(array) for name, array in arrays.items()}
        self._persons = pa.ipc.open_file(pa.memory_map(str(folder / "persons.arrow"))).get_batch(0)
        self._added: dict[int, list[int]] = {}

    @classmethod
    def load(cls, files: Files, work: Path) -> None:
        folder = cls.folder(work, "social")
        folder.mkdir(parents=True, exist_ok=True)
        tables = {path.stem: path for paths in files.values() for path in paths}
        arrays: dict[str, npt.NDArray[Any]] = {}
        if "Person" in tables:
            persons = pq.read_table(tables["Person"]).combine_chunks().to_batches()[0]
            with pa.ipc.new_file(str(folder / "persons.arrow"), persons.schema) as writer:
                writer.write_batch(persons)
            arrays = _person_arrays(persons) | _edge_arrays(persons["slug"], pq.read_table(tables["Knows"]))
        if "Item" in tables:
            items = pq.read_table(tables["Item"]).combine_chunks()
            vectors = items["vec"].chunk(0)
            arrays["vectors"] = np.asarray(vectors.flatten()).reshape(-1, vectors.type.list_size)
            arrays["item_slugs"] = np.array(items["slug"].to_pylist(), dtype=np.bytes_)
        for name, array in arrays.items():
            np.save(folder / name, array)

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        return _ASKED[case.title](self, parameters)

    def close(self) -> None:
        self._arrays.clear()

    @classmethod
    def text_of(cls, case: Case) -> str | None:
        return case.title if case.title in _ASKED else None

    def person(self, parameters: Parameters, name: str = "slug") -> int:
        """Return the number of a person."""
        slugs = self._arrays["slugs"]
        at = int(np.searchsorted(slugs, str(parameters[name]).encode()))
        return int(self._arrays["slug_order"][at])

    def known(self, people: Ids) -> Ids:
        """Return whom each of them knows, once each."""
        found = _gathered(self._arrays["linked_starts"], self._arrays["linked"], people)
        added = [self._added[one] for one in people.tolist() if one in self._added] if self._added else []
        return np.concatenate([found, *added]) if added else found

    def met(self, person: int, hops: int) -> list[int]:
        """Return how many persons are first met after each hop."""
        seen = np.zeros(len(self._arrays["slugs"]), dtype=np.bool_)
        seen[person] = True
        counts, here = [], np.array([person])
        for _ in range(hops):
            found = self.known(here)
            here = np.unique(found[~seen[found]])
            seen[here] = True
            counts.append(len(here))
        return counts

    def look_up(self, parameters: Parameters) -> Rows:
        """Return some properties of a person."""
        at = self.person(parameters)
        return [tuple(self._persons[name][at].as_py() for name in ("name", "age", _COUNTRY))]

    def follow(self, parameters: Parameters) -> Rows:
        """Return whom a person knows, and how well."""
        at = self.person(parameters)
        start, end = self._arrays["starts"][at : at + 2].tolist()
        people = _as_arrow(self._arrays["targets"][start:end])
        names = (pc.take(self._persons[name], people).to_pylist() for name in ("slug", "name"))
        return list(zip(*names, self._arrays["weights"][start:end].tolist(), strict=True))

    def two_hops(self, parameters: Parameters) -> Rows:
        """Return whom those know whom a person knows."""
        ends = np.unique(self.known(np.unique(self.known(np.array([self.person(parameters)])))))
        return [(slug,) for slug in pc.take(self._persons["slug"], _as_arrow(ends)).to_pylist()]

    def three_hops(self, parameters: Parameters) -> Rows:
        """Return how many others walks of three hops lead to."""
        person = self.person(parameters)
        ends = np.array([person])
        for _ in range(3):
            ends = np.unique(self.known(ends))
        return [(int(np.count_nonzero(ends != person)),)]

    def reached(self, parameters: Parameters) -> Rows:
        """Return how many are up to three hops away."""
        return [(sum(self.met(self.person(parameters), 3)),)]

    def friends_of_friends(self, parameters: Parameters) -> Rows:
        """Return the oldest friends of friends."""
        ends = self.known(np.unique(self.known(np.array([self.person(parameters)]))))
        ages = self._arrays["ages"]
        ends = ends[ages[ends] >= _OLD_ENOUGH]
        best = _as_arrow(ends[np.lexsort((self._arrays["slug_ranks"][ends], -ages[ends]))[:_SHOWN]])
        columns = (pc.take(self._persons[name], best).to_pylist() for name in ("slug", "name", "age"))
        return list(zip(*columns, strict=True))

    def by_country(self, parameters: Parameters) -> Rows:
        """Return how many edges lead to each country."""
        del parameters
        counts = np.bincount(self._arrays["countries"][self._arrays["targets"]])
        names = [*self._persons[_COUNTRY].dictionary_encode().dictionary.to_pylist(), None]
        return [(name, count) for name, count in zip(names, counts.tolist(), strict=True) if count]

    def triangles(self, parameters: Parameters) -> Rows:
        """Return how often two friends of somebody know each other."""
        del parameters
        starts, linked = self._arrays["linked_starts"], self._arrays["linked"]
        is_friend = np.zeros(len(starts) - 1, dtype=np.bool_)
        total = 0
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            friends = linked[start:end]
            is_friend[friends] = True
            total += int(np.count_nonzero(is_friend[_gathered(starts, linked, friends)]))
            is_friend[friends] = False
        return [(total,)]

    def nearest(self, parameters: Parameters) -> Rows:
        """Return the ten nearest vectors."""
        vectors, wanted = self._arrays["vectors"], np.asarray(parameters["vec"], dtype=np.float32)
        norms = self._arrays.get("norms")
        if norms is None:
            norms = self._arrays["norms"] = np.einsum("ij,ij->i", vectors, vectors)
        best = np.argpartition(norms - 2 * (vectors @ wanted), _NEAREST)[:_NEAREST]
        return [(slug.decode(),) for slug in self._arrays["item_slugs"][best].tolist()]

    def insert(self, parameters: Parameters) -> Rows:
        """Let a person know another one."""
        one, other = self.person(parameters), self.person(parameters, "other")
        self._added.setdefault(one, []).append(other)
        return [(1,)]


_ASKED: dict[str, Callable[[_Numpy, Parameters], Rows]] = {
    "point lookup by key": _Numpy.look_up,
    "one hop with node and edge property": _Numpy.follow,
    "distinct ends of two hops": _Numpy.two_hops,
    "three hops, distinct count": _Numpy.three_hops,
    "reachability 1..3": _Numpy.reached,
    "friends of friends, filter, order, limit 20": _Numpy.friends_of_friends,
    "Knows joined with Person, grouped by country": _Numpy.by_country,
    "whole graph: triangles, linked persons": _Numpy.triangles,
    "nearest 10 vectors": _Numpy.nearest,
    INSERT.title: _Numpy.insert,
}


def _person_arrays(persons: pa.RecordBatch) -> dict[str, npt.NDArray[Any]]:
    slugs = np.array(persons["slug"].to_pylist(), dtype=np.bytes_)
    order = np.argsort(slugs)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    codes = persons[_COUNTRY].dictionary_encode()
    return {
        "slugs": slugs[order],
        "slug_order": order,
        "slug_ranks": ranks,
        "ages": np.asarray(pc.fill_null(persons["age"], -1)),
        "countries": np.asarray(pc.fill_null(codes.indices, len(codes.dictionary))).astype(np.int8),
    }


def _edge_arrays(slugs: pa.Array, knows: pa.Table) -> dict[str, npt.NDArray[Any]]:
    source, target = (np.asarray(pc.index_in(knows[end], slugs)).astype(np.int64) for end in ("from", "to"))
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    is_first = np.append(True, (np.diff(source) != 0) | (np.diff(target) != 0)) if len(source) else source == 0
    bounds = np.arange(len(slugs) + 1)
    return {
        "starts": np.searchsorted(source, bounds),
        "targets": target,
        "weights": np.asarray(knows["weight"])[order],
        "linked_starts": np.searchsorted(source[is_first], bounds),
        "linked": target[is_first],
    }


def _as_arrow(numbers: Ids) -> pa.Array:
    """Return numbers as an array of Arrow; without asking whether they might be a series of pandas, which loads it."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _gathered(starts: Ids, values: Ids, wanted: Ids) -> Ids:
    """Return the values of every wanted list, one list after the other."""
    first = starts[wanted]
    counts = starts[wanted + 1] - first
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return values[np.repeat(first - ends + counts, counts) + np.arange(total)]


class _BareLance(Engine):
    """The tables as Lance stores them, with an index on every key and every end of an edge."""

    name = "Lance"
    libraries = ("pyarrow", "lance")
    is_peer = False

    def __init__(self, work: Path) -> None:
        import lance  # noqa: PLC0415 - part of what opening costs

        folder = self.folder(work, "social")
        self._tables = {path.stem: lance.dataset(str(path)) for path in folder.glob("*.lance")}

    @classmethod
    def load(cls, files: Files, work: Path) -> None:
        import lance  # noqa: PLC0415 - see above

        folder = cls.folder(work, "social")
        folder.mkdir(parents=True, exist_ok=True)
        for path in (path for paths in files.values() for path in paths):
            table = lance.write_dataset(pq.read_table(path), str(folder / f"{path.stem}.lance"))
            for column in ("slug",) if path.stem in NODES else ("from", "to") if path.stem in EDGES else ():
                table.create_scalar_index(column, "BTREE")

    @classmethod
    def index_texts(cls, work: Path) -> None:
        import lance  # noqa: PLC0415 - see above

        lance.dataset(str(cls.folder(work, "social") / "Post.lance")).create_scalar_index("body", "INVERTED")

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        if case.keys == "text":
            found = self._tables["Post"].to_table(
                columns=["slug", "_score"],
                full_text_query={"query": str(parameters["text"]), "columns": ["body"]},
                limit=_NEAREST,
            )
        elif case.keys == "vector":
            nearest = {"column": "vec", "q": parameters["vec"], "k": _NEAREST}
            found = self._tables["Item"].to_table(columns=["slug", "_distance"], nearest=nearest)
        else:
            columns = ["name", "age", _COUNTRY]
            found = self._tables["Person"].to_table(columns=columns, filter=f"slug = '{parameters['slug']}'")
        names = [name for name in found.column_names if not name.startswith("_")]
        return list(zip(*(found[name].to_pylist() for name in names), strict=True))

    def close(self) -> None:
        self._tables.clear()

    @classmethod
    def is_comparable(cls, case: Case) -> bool:
        # It leaves out words that are in every text, and rounds lengths.
        return case.keys != "text"

    @classmethod
    def text_of(cls, case: Case) -> str | None:
        return case.title if case.title in _OF_LANCE else None


_OF_LANCE = ("point lookup by key", "bm25 top 10 over posts", "nearest 10 vectors")
FLOORS: dict[str, type[Engine]] = {engine.name: engine for engine in (_Numpy, _BareLance)}
