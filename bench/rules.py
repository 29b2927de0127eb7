"""How long the rules about sets of rows take on Spark's path, for n, 2n and 4n edges in buckets of one size.

The keys of persons and of whom they know are written as tasks of a load write them, half of the persons are stored
already, and one check is timed. No session is needed: tasks run in threads, by the functions that executors run.

Usage: python bench/rules.py [--rows 100_000] [--bucket-rows 100_000] [--threads 2]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from rich import print as show
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.lang.pg import parse_schema
from omnigraph.spark.keys import KeysFile, Places, keys_schema, row_numbers
from omnigraph.spark.rules import ChangeKeys, RuleSettings, TypeKeys, check_change
from omnigraph.spark.runner import ThreadRunner
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import TableTicket

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person @card(0..1000)
"""
EDGES_PER_PERSON = 8
FILE_ROWS = 500_000


def make_change(root: Path, catalog: Catalog, edges: int) -> ChangeKeys:
    """Write the keys of so many edges and of the persons that are new; the other persons are stored."""
    storage = Storage.open(str(root))
    scratch = ScratchPlace(storage=storage, operation_id=f"rules-{edges}")
    count = max(edges // EDGES_PER_PERSON, 2)
    half = count // 2
    person, knows = catalog.nodes["Person"], catalog.edges["Knows"]
    lance.write_dataset(pa.table({"id": _names(0, half), "name": _names(0, half)}), f"{root}/persons-{edges}")
    pin = TablePin(location=f"persons-{edges}", branch=None, version=1)
    persons, known = [], []
    for start in range(half, count, FILE_ROWS):
        end = min(start + FILE_ROWS, count)
        columns = [_numbers(0, start, end), _names(start, end), _names(start, end)]
        persons.append(_put(scratch, f"persons-{start}", pa.table(columns, schema=keys_schema(person)), "node:Person"))
    chosen = np.random.default_rng(7)
    for start in range(0, edges, FILE_ROWS):
        end = min(start + FILE_ROWS, edges)
        ends = [_named(chosen.integers(0, count, end - start)) for _ in range(2)]
        columns = [_numbers(1, start, end), _ids(start, end), *ends]
        known.append(_put(scratch, f"knows-{start}", pa.table(columns, schema=keys_schema(knows)), "edge:Knows"))
    return ChangeKeys(
        catalog=catalog,
        types={
            "node:Person": TypeKeys(type=person, files=tuple(persons), strict=True),
            "edge:Knows": TypeKeys(type=knows, files=tuple(known), strict=True, has_fresh_ids=True),
        },
        places=Places(names=("persons", "knows")),
        scratch=scratch,
        tables={"node:Person": TableTicket(storage=storage, pin=pin)},
    )


def measure(rows: int, settings: RuleSettings, threads: int) -> list[tuple[int, int, float]]:
    """Return for n, 2n and 4n edges the number of keys, of buckets, and the seconds."""
    catalog = compile_schema(parse_schema(SCHEMA, "bench.pg"))
    answers = []
    for times in (1, 2, 4):
        with tempfile.TemporaryDirectory(prefix="rules-") as folder:
            change = make_change(Path(folder), catalog, rows * times)
            start = time.perf_counter()
            verdict = check_change(change, ThreadRunner(threads=threads), settings=settings)
            took = time.perf_counter() - start
            if verdict.error is not None:
                raise verdict.error
            answers.append((change.rows, -(-change.rows // settings.bucket_rows), took))
    return answers


def _put(scratch: ScratchPlace, name: str, keys: pa.Table, table_key: str) -> KeysFile:
    scratch.put(name, keys)
    return KeysFile(table_key=table_key, name=name, rows=keys.num_rows)


def _numbers(source: int, start: int, end: int) -> pa.Array:
    return row_numbers(source, pa.array(np.arange(start + 1, end + 1)))


def _names(start: int, end: int) -> pa.Array:
    return _named(np.arange(start, end))


def _named(numbers: np.ndarray) -> pa.Array:
    return pa.array(np.char.add("person-", numbers.astype(str)))


def _ids(start: int, end: int) -> pa.Array:
    return pa.array(np.char.add("01HZZZZZZZZZZZZZZZZ", np.arange(start, end).astype(str)))


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--bucket-rows", type=int, default=100_000)
    options.add_argument("--threads", type=int, default=2)
    chosen = options.parse_args()
    settings = RuleSettings(bucket_rows=chosen.bucket_rows)
    answers = measure(chosen.rows, settings, chosen.threads)
    table = Table("keys", "buckets", "seconds", "times the first", "times its keys")
    rows, _, first = answers[0]
    for count, buckets, took in answers:
        table.add_row(f"{count:,}", f"{buckets}", f"{took:.2f}", f"{took / first:.2f}", f"{count / rows:.2f}")
    show(table)


if __name__ == "__main__":
    main()
