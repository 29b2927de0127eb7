"""How fast small writes are: one durable row, and batches of a thousand beside a bare Lance upsert of the same rows.

A batch replaces half of the rows of the one before it. It is made in three forms: a mutation called once per row of
parameters, one text with a statement per row whose plan is known, and such a text seen for the first time. The bare
upsert has an index on the id and checks nothing; it is timed as Lance leaves it, and with its files synced as every
commit of a graph is. The forms take turns, so that whatever else the machine does hits all of them alike.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from rich.table import Table
from tests.session import Session

ROWS = 1000
ROUNDS = 15
WARM_UP = 3
ONE_ROW_ROUNDS = 45

INSERT = """query add($slug: String, $name: String, $joined: Date) {
    insert Person { slug: $slug, name: $name, age: 40, joined: $joined }
}"""
FORMS = {
    "one_row": "one row, durable",
    "calls": f"{ROWS:,} calls of one insert, one commit",
    "text": f"one text of {ROWS:,} inserts, plan known",
    "cold": f"one text of {ROWS:,} inserts, seen for the first time",
    "upsert": f"bare Lance upsert of {ROWS:,} rows",
    "upsert_synced": "the same, its files synced",
}
Answer = dict[str, float]


def measure(session: Session, persons: pa.Table, work: Path) -> Answer:
    """Return the median milliseconds of every form, on an open graph and on a bare table of the same persons."""
    bare = BareTable(persons, work / "Person")
    text = _text("batch")
    forms: dict[str, Callable[[int], object]] = {
        "calls": lambda number: session.mutate_batch(INSERT, [_person(slug) for slug in _slugs("c", number)]),
        "text": lambda number: session.mutate(text, _parameters(_slugs("t", number))),
        "cold": lambda number: session.mutate(_text(f"batch{number}"), _parameters(_slugs("n", number))),
        "upsert": lambda number: bare.upsert(_slugs("u", number)),
        "upsert_synced": lambda number: bare.upsert(_slugs("s", number), sync=True),
    }
    took_ms: dict[str, list[float]] = {name: [] for name in ("one_row", *forms)}
    for number in range(ONE_ROW_ROUNDS):
        took_ms["one_row"].append(_time_ms(lambda number=number: session.mutate(INSERT, _person(f"one-{number}"))))
    # The first-time texts leave a heap behind that slows everything after them.
    for names in (tuple(name for name in forms if name != "cold"), ("cold",)):
        for number in range(ROUNDS):
            for name in names:
                took_ms[name].append(_time_ms(lambda run=forms[name], number=number: run(number)))
    return {name: statistics.median(values[WARM_UP:]) for name, values in took_ms.items()}


def show(answer: Answer) -> Table:
    table = Table("mutation", "median ms", "x bare upsert", "x synced upsert")
    for name, title in FORMS.items():
        ratios = (
            ("", "") if name == "one_row" else (_ratio(answer, name, "upsert"), _ratio(answer, name, "upsert_synced"))
        )
        table.add_row(title, f"{answer[name]:.1f}", *ratios)
    return table


class BareTable:
    """A Lance table of persons with an index on the id, written to without any of what makes a graph."""

    def __init__(self, persons: pa.Table, place: Path) -> None:
        self._place = place
        self._sample = persons.take([row % persons.num_rows for row in range(ROWS)])
        lance.write_dataset(persons, str(place), enable_stable_row_ids=True).create_scalar_index("id", "BTREE")
        self._table = lance.dataset(str(place))
        self._known = set(place.rglob("*"))

    def upsert(self, slugs: list[str], *, sync: bool = False) -> None:
        """Upsert one batch; with ``sync`` wait until all of it is on the disk."""
        rows = self._sample.set_column(0, "id", [slugs]).set_column(1, "slug", [slugs])
        self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        if sync:
            self._sync()

    def _sync(self) -> None:
        found = set(self._place.rglob("*"))
        files = [path for path in found - self._known if path.is_file()]
        for path in [*files, *{path.parent for path in files}]:
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        self._known = found


def _text(name: str) -> str:
    names = ", ".join(f"$slug{row}: String" for row in range(ROWS))
    inserts = "\n".join(
        f'    insert Person {{ slug: $slug{row}, name: "Batch Row", age: 40, joined: $joined }}' for row in range(ROWS)
    )
    return f"query {name}($joined: Date, {names}) {{\n{inserts}\n}}"


def _slugs(prefix: str, number: int) -> list[str]:
    first = number * ROWS // 2
    return [f"{prefix}-{first + row}" for row in range(ROWS)]


def _parameters(slugs: list[str]) -> dict[str, Any]:
    return {"joined": "2020-01-01", **{f"slug{row}": slug for row, slug in enumerate(slugs)}}


def _person(slug: str) -> dict[str, str]:
    return {"slug": slug, "name": "Batch Row", "joined": "2020-01-01"}


def _ratio(answer: Answer, name: str, peer: str) -> str:
    return f"{answer[name] / answer[peer]:.2f}"


def _time_ms(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return (time.perf_counter() - started_s) * 1000
