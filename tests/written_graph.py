"""Changes as other processes have written them: keys files in a scratch place, stored rows in real tables."""

from __future__ import annotations

from itertools import count

import lance
import pyarrow as pa

from omnigraph.engine.constraints import find_violations
from omnigraph.engine.view import GraphChange, TypeChange
from omnigraph.errors import Violations
from omnigraph.spark.keys import KeysFile, Places, keys_of, row_number
from omnigraph.spark.rules import ChangeKeys, TypeKeys
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import TableTicket
from tests.constraint_graph import owner_of, table_of, view_of

SOURCES = ("a.jsonl", "b.jsonl")
# What rules about single rows find; those are judged before anything is written.
ROW_RULES = frozenset({"type", "required", "range", "check", "enum"})
_numbers = count()


def tickets(root, catalog, stored):
    """Tables with the stored rows, in two fragments where there are rows enough; types without rows have none."""
    found = {}
    for name, rows in stored.items():
        owner = owner_of(catalog, name)
        if rows:
            where = f"tables/{next(_numbers)}"
            half = -(-len(rows) // 2)
            lance.write_dataset(_loose(table_of(owner, rows)), f"{root}/{where}", max_rows_per_file=half)
            pin = TablePin(location=where, branch=None, version=1)
            found[owner.table_key] = TableTicket(storage=Storage.open(str(root)), pin=pin)
    return found


def _loose(table):
    """Rows that may lack what their type demands: what a graph broke before is not the change's doing."""
    fields = [field if field.name == "id" else field.with_nullable(nullable=True) for field in table.schema]
    return table.cast(pa.schema(fields))


def change_and_written(root, catalog, parts, stored):
    """A change of ``parts`` (name, rows, options) as the embedded evaluator takes it, and as it is written by others.

    The first half of each type's rows comes from one source, the rest from another.
    """
    scratch = ScratchPlace(storage=Storage.open(str(root)), operation_id=f"op{next(_numbers)}")
    changes, types = {}, {}
    for name, rows, options in parts:
        owner = owner_of(catalog, name)
        table, half = table_of(owner, rows), -(-len(rows) // 2)
        places = [(int(at >= half), at + 1) for at in range(len(rows))]
        numbers = pa.array([row_number(*place) for place in places], pa.int64())
        keys, files = keys_of(owner, table, numbers), []
        for piece in (keys.slice(half), keys.slice(0, half)):
            file = f"keys-{name}-{len(files)}"
            scratch.put(file, piece)
            files.append(KeysFile(table_key=owner.table_key, name=file, rows=piece.num_rows))
        sources = pa.table({"source": [place[0] for place in places], "line": [place[1] for place in places]})
        changes[owner.table_key] = TypeChange(type=owner, rows=table, sources=sources, **options)
        types[owner.table_key] = TypeKeys(type=owner, files=tuple(files), **options)
    written = ChangeKeys(
        catalog=catalog,
        types=types,
        places=Places(names=SOURCES),
        scratch=scratch,
        tables=tickets(root, catalog, stored),
    )
    return GraphChange(types=changes, sources=SOURCES), written


def embedded_findings(catalog, change, stored, limit=1000):
    """What the embedded evaluator finds, without what it finds in single rows."""
    found = find_violations(change, view_of(catalog, stored), limit)
    items = tuple(item for item in found.items if item.rule not in ROW_RULES)
    return Violations(items=items, total=found.total - (len(found.items) - len(items)))


def violations_of(verdict):
    """The violations of a verdict, none when there is no error."""
    return Violations(items=(), total=0) if verdict.error is None else verdict.error.details
