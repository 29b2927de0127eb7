"""A graph of any size from a seed: people, organisations, posts with text, and edges whose degrees follow a power law.

The same seed and size give the same bytes, whatever the versions of the libraries: all numbers are drawn from the raw
stream of a generator with a fixed definition. Everything is made column by column; no row is ever a Python object.

Usage: python bench/generate.py --size S --out DIR
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA_PATH = Path(__file__).parent / "schema.pg"
SEED = 20_240_229
EDGES = ("Knows", "WorksAt", "Created")
_LINES_AT_ONCE = 65_536

_COUNTRIES = ("at", "br", "de", "fr", "in", "jp", "ng", "us")
_ROLES = ("engineer", "manager", "researcher", "writer")
_GIVEN = ("Ada", "Bo", "Chidi", "Dora", "Émile", "Fatou", "Goro", "Hana", "Ines", "Jürgen", "Kofi", "Lúcia", "Mei")
_FAMILY = ("Adeyemi", "Bauer", "Costa", "Dubois", "Eze", "Fischer", "Gupta", "Huber", "Ito", "Jones", "Kim", "Lopez")
_WORDS = (  # noqa: SIM905 - so many words read best as a text
    "graph table branch commit merge query index reader writer lake river stone paper light quiet early small wide "
    "open plain carries follows finds keeps brings shows turns holds writes reads under over beside between without "
    "every many some few the a one another morning evening winter summer road bridge garden letter number signal"
).split()

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many of everything there are."""

    persons: int
    organisations: int
    posts: int
    knows: int

    @property
    def records(self) -> int:
        """All nodes and edges; everybody works somewhere or nowhere, and every post has one author."""
        return self.persons * 2 + self.organisations + self.posts * 2 + self.knows


SIZES = {
    "XS": Size(persons=60, organisations=6, posts=34, knows=400),
    # 10 k nodes, 260 k edges.
    "S": Size(persons=6_000, organisations=500, posts=3_500, knows=250_500),
    "M": Size(persons=100_000, organisations=5_000, posts=547_500, knows=2_000_000),
    "L": Size(persons=500_000, organisations=20_000, posts=1_000_000, knows=10_000_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A generated graph as files: all of it as lines, and a Parquet file per type."""

    size: Size
    jsonl: Path
    parquet: tuple[Path, ...]

    def table(self, name: str) -> Path:
        """Return the file of a type."""
        return next(path for path in self.parquet if path.stem == name)


class Stream:
    """Numbers from a seed, always the same ones."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def fractions(self, count: int) -> Floats:
        """Return numbers from 0 up to but not including 1."""
        raw: npt.NDArray[np.uint64] = self._bits.random_raw(count)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, count: int, below: int) -> Integers:
        """Return whole numbers from 0 up to but not including ``below``."""
        return (self.fractions(count) * below).astype(np.int64)

    def skewed(self, count: int, below: int, exponent: float) -> Integers:
        """Return whole numbers whose frequencies fall off as a power of their rank; ranks are dealt at random."""
        weights = np.arange(1, below + 1, dtype=np.float64) ** -exponent
        bounds = np.cumsum(weights)
        ranks = np.searchsorted(bounds, self.fractions(count) * bounds[-1], side="right")
        return np.argsort(self.fractions(below), kind="stable")[np.minimum(ranks, below - 1)]

    def some(self, count: int, share: float) -> npt.NDArray[np.bool_]:
        """Return a mask that is true for about ``share`` of all."""
        return self.fractions(count) < share


def make_tables(size: Size, seed: int = SEED) -> dict[str, pa.Table]:
    """Return the graph: a table per type, nodes first, columns called as the schema calls them."""
    stream = Stream(seed)
    persons = _slugs("per", size.persons)
    organisations = _slugs("org", size.organisations)
    posts = _slugs("post", size.posts)
    return {
        "Person": _persons(stream, persons),
        "Organisation": _organisations(stream, organisations),
        "Post": _posts(stream, posts),
        "Knows": _knows(stream, persons, size.knows),
        "WorksAt": _works_at(stream, persons, organisations),
        "Created": _created(stream, persons, posts),
    }


def write_parquet(tables: dict[str, pa.Table], folder: Path) -> tuple[Path, ...]:
    """Write a file per type, called like the type; return their paths."""
    paths = []
    for name, table in tables.items():
        paths.append(folder / f"{name}.parquet")
        pq.write_table(table, paths[-1], compression="snappy", row_group_size=131_072)
    return tuple(paths)


def write_jsonl(tables: dict[str, pa.Table], path: Path) -> None:
    """Write every row as an envelope on a line of its own, nodes first."""
    with path.open("wb") as file:
        for name, table in tables.items():
            for lines in _iter_lines(name, table):
                file.write(memoryview(lines))


def generate(size_name: str, folder: Path, seed: int = SEED, *, lines: bool = True) -> Dataset:
    """Make a graph and write it to ``folder``; files that are there already are kept.

    Args:
        size_name: how large it is.
        folder: where the files go.
        seed: what decides its contents.
        lines: whether the file of lines is made too, the largest one by far; it is missing otherwise.
    """
    size = SIZES[size_name]
    folder.mkdir(parents=True, exist_ok=True)
    done, jsonl = folder / ".done", folder / "graph.jsonl"
    mark = f"{size_name} {seed}"
    is_made = done.exists() and done.read_text() == mark
    if not is_made or (lines and not jsonl.exists()):
        # What an interrupted run leaves is never taken for finished.
        done.unlink(missing_ok=True)
        tables = make_tables(size, seed)
        write_parquet(tables, folder)
        jsonl.unlink(missing_ok=True)
        if lines:
            write_jsonl(tables, jsonl)
        done.write_text(mark)
    names = ("Person", "Organisation", "Post", *EDGES)
    return Dataset(size=size, jsonl=jsonl, parquet=tuple(folder / f"{name}.parquet" for name in names))


def _slugs(prefix: str, count: int) -> pa.Array:
    numbers = pc.cast(pa.array(np.arange(count)), pa.string())
    return pc.binary_join_element_wise(prefix, numbers, "-")


def _persons(stream: Stream, slugs: pa.Array) -> pa.Table:
    count = len(slugs)
    given, family = _pick(stream, _GIVEN, count), _pick(stream, _FAMILY, count)
    return pa.table(
        {
            "slug": slugs,
            "name": pc.binary_join_element_wise(given, family, " "),
            "age": _sometimes(stream, pa.array(stream.integers(count, 100), pa.int32()), 0.9),
            "country": _sometimes(stream, _pick(stream, _COUNTRIES, count), 0.95),
            "joined": _dates(stream, count),
        }
    )


def _organisations(stream: Stream, slugs: pa.Array) -> pa.Table:
    count = len(slugs)
    names = pc.binary_join_element_wise(_pick(stream, _FAMILY, count), _pick(stream, _WORDS, count), " & ")
    founded = pa.array(1900 + stream.integers(count, 124), pa.int32())
    return pa.table({"slug": slugs, "name": names, "founded": _sometimes(stream, founded, 0.8)})


def _posts(stream: Stream, slugs: pa.Array) -> pa.Table:
    count = len(slugs)
    phrases = _joined(stream, pa.array(_WORDS), stream.integers(4096, 6) + 3, " ")
    titles = phrases.take(pa.array(stream.integers(count, len(phrases))))
    posted = 1_500_000_000_000 + stream.integers(count, 200_000_000_000)
    return pa.table(
        {
            "slug": slugs,
            "title": titles,
            "body": _joined(stream, phrases, stream.integers(count, 8) + 1, ", "),
            "posted": pa.array(posted).cast(pa.timestamp("ms", tz="UTC")),
            "likes": pa.array(stream.skewed(count, 1000, 1.1)),
        }
    )


def _knows(stream: Stream, persons: pa.Array, count: int) -> pa.Table:
    people = len(persons)
    source = stream.skewed(count, people, 0.6)
    target = stream.skewed(count, people, 0.8)
    # Nobody knows themselves; the next one takes their place.
    target = np.where(source == target, (target + 1) % people, target)
    return pa.table(
        {
            "from": persons.take(pa.array(source)),
            "to": persons.take(pa.array(target)),
            "since": _sometimes(stream, _dates(stream, count), 0.7),
            "weight": np.round(stream.fractions(count), 6),
        }
    )


def _works_at(stream: Stream, persons: pa.Array, organisations: pa.Array) -> pa.Table:
    count = len(persons)
    employer = stream.skewed(count, len(organisations), 0.9)
    return pa.table(
        {"from": persons, "to": organisations.take(pa.array(employer)), "role": _pick(stream, _ROLES, count)}
    )


def _created(stream: Stream, persons: pa.Array, posts: pa.Array) -> pa.Table:
    author = stream.skewed(len(posts), len(persons), 0.7)
    return pa.table({"from": persons.take(pa.array(author)), "to": posts, "draft": stream.some(len(posts), 0.1)})


def _pick(stream: Stream, choices: Sequence[str], count: int) -> pa.Array:
    return pa.array(choices).take(pa.array(stream.integers(count, len(choices))))


def _sometimes(stream: Stream, values: pa.Array, share: float) -> pa.Array:
    """Return values, null where they are not among the ``share`` that has one."""
    return pc.if_else(pa.array(stream.some(len(values), share)), values, pa.scalar(None, values.type))


def _dates(stream: Stream, count: int) -> pa.Array:
    return pa.array((14_000 + stream.integers(count, 6000)).astype(np.int32)).view(pa.date32())


def _joined(stream: Stream, parts: pa.Array, lengths: Integers, separator: str) -> pa.Array:
    """Return texts made of as many randomly chosen parts as ``lengths`` says."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    chosen = parts.take(pa.array(stream.integers(int(offsets[-1]), len(parts))))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, chosen), separator)


def _iter_lines(name: str, table: pa.Table) -> Iterator[pa.Buffer]:
    for start in range(0, table.num_rows, _LINES_AT_ONCE):
        part = table.slice(start, _LINES_AT_ONCE).combine_chunks()
        lines = pc.binary_join_element_wise(*_pieces(name, part), "")
        array = lines.chunk(0) if isinstance(lines, pa.ChunkedArray) else lines
        # Lines end in a line break, so the text of the whole array is the text of the file.
        offsets, data = array.buffers()[1:]
        first, last = np.frombuffer(offsets, np.int32)[[array.offset, array.offset + len(array)]]
        yield data.slice(int(first), int(last - first))


def _pieces(name: str, part: pa.Table) -> Iterator[Any]:
    if name in EDGES:
        yield f'{{"edge":"{name}","from":"'
        yield part["from"]
        yield '","to":"'
        yield part["to"]
        yield '","data":{'
    else:
        yield f'{{"type":"{name}","data":{{'
    columns = [column for column in part.column_names if column not in ("from", "to")]
    for number, column in enumerate(columns):
        yield f'{"," if number else ""}"{column}":'
        yield _json_values(part[column])
    yield "}}\n"


def _json_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the JSON text of each value; no text made here holds a character that JSON escapes."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_string(kind):
        text = pc.binary_join_element_wise('"', column.cast(pa.string()), '"', "")
    elif pa.types.is_timestamp(kind):
        text = pc.binary_join_element_wise('"', pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ"), '"', "")
    else:
        text = column.cast(pa.string())
    return pc.fill_null(text, "null")


def main() -> None:
    """Write a graph where the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="S")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    dataset = generate(arguments.size, arguments.out, arguments.seed)
    print(f"{dataset.size.records} records in {arguments.out}")


if __name__ == "__main__":
    main()
