"""Relations in this process: rows in a few parts, joined row by row, each task pickled as if it were sent away."""

from __future__ import annotations

import pickle
from itertools import product
from math import prod

import pyarrow as pa

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.runner import ReadCall
from omnigraph.spark.queries.refusals import check_lowerable
from omnigraph.spark.queries.run import collect, lower

PARTS = 3


def prepared_read(session, text, params=None, *, params_form="host", options=None):
    """Compile and plan a read of the main branch that can be lowered."""
    call = ReadCall(
        text=text,
        name=None,
        params=params,
        params_form=params_form,
        branch="main",
        at=None,
        options=options or QueryOptions(),
        source_name="<query>",
    )
    prepared = session.prepare(call)
    check_lowerable(prepared)
    return prepared


def query_in_parts(session, text, params=None, *, params_form="host", options=None, sizes=None):
    """Lower a read and run it on relations of this process; return its rows."""
    prepared = prepared_read(session, text, params, params_form=params_form, options=options)
    return collect(lower(ArrowRelations(), session.store.storage, prepared, PARTS, sizes=sizes), prepared)


class ArrowRelation:
    """Parts, each a table with the same columns."""

    def __init__(self, parts):
        self.parts = parts

    @property
    def names(self):
        return tuple(self.parts[0].column_names)

    def map(self, task):
        sent = pickle.loads(pickle.dumps(task))  # noqa: S301 - made here
        return ArrowRelation([_table(list(sent.run(iter(_batches(part)))), sent.schema) for part in self.parts])

    def select(self, columns):
        parts = [part.select(list(columns.values())).rename_columns(list(columns)) for part in self.parts]
        return ArrowRelation(parts)

    def join(self, other, on, *, how, build, nulls=()):
        assert how == "inner" or build not in {"broadcast_left", "hash_left"}
        partners = {}
        for row in other._rows():
            if not any(row[right] is None for left, right in on.items() if left not in nulls):
                partners.setdefault(_key(row, on.values()), []).append(row)
        is_wide = how in {"inner", "left"}
        added = [name for name in other.names if name not in on.values()] if is_wide else []
        assert not set(added) & set(self.names)
        schema = pa.schema([*self._schema, *(other._schema.field(name) for name in added)])
        parts = []
        for part in self.parts:
            kept = []
            for row in part.to_pylist():
                found = partners.get(_key(row, on), [])
                if is_wide:
                    kept += [row | {name: partner[name] for name in added} for partner in found]
                if (how == "left" and not found) or (how in {"semi", "anti"} and bool(found) == (how == "semi")):
                    kept.append(row)
            parts.append(pa.Table.from_pylist(kept, schema))
        return ArrowRelation(parts)

    def cross(self, other):
        schema = pa.schema([*self._schema, *other._schema])
        rows = [left | right for left, right in product(self._rows(), other._rows())]
        return _spread(rows, schema)

    def distinct(self, by):
        found = {}
        for row in self._rows():
            found.setdefault(_key(row, by), row)
        return _spread(list(found.values()), self._schema)

    def union(self, other):
        return ArrowRelation([*self.parts, *(part.select(self.names) for part in other.parts)])

    def where_equal(self, left, right):
        return _spread([row for row in self._rows() if row[left] == row[right]], self._schema)

    def where_different(self, left, right):
        return _spread([row for row in self._rows() if row[left] != row[right]], self._schema)

    def total(self, keys, factors, into):
        sums = {} if keys else {(): {into: 0}}
        for row in self._rows():
            group = sums.setdefault(_key(row, keys), {name: row[name] for name in keys} | {into: 0})
            group[into] += prod(row[name] for name in factors)
        schema = pa.schema([*(self._schema.field(name) for name in keys), pa.field(into, pa.int64())])
        return _spread(list(sums.values()), schema)

    def spread(self, by):
        parts = [[] for _ in range(PARTS if by else 1)]
        for row in self._rows():
            parts[hash(repr([row[name] for name in by])) % len(parts)].append(row)
        return ArrowRelation([pa.Table.from_pylist(part, self._schema) for part in parts])

    def limit(self, count):
        return _spread(self._rows()[:count], self._schema)

    def cut(self):
        return self

    def is_empty(self):
        return not self._rows()

    def collect(self):
        return pa.concat_tables(self.parts)

    @property
    def _schema(self):
        return self.parts[0].schema

    def _rows(self):
        return self.collect().to_pylist()


class ArrowRelations:
    """Begins relations in this process."""

    def read(self, task, parts):
        numbers = [pa.table({"id": pa.array([part], pa.int64())}) for part in range(parts)]
        return ArrowRelation(numbers or [pa.table({"id": pa.array([], pa.int64())})]).map(task)


def _key(row, names):
    """Columns of a row as Spark compares them: every NaN is the same, and there is one zero."""
    return tuple(repr(row[name] + 0.0 if isinstance(row[name], float) else row[name]) for name in names)


def _spread(rows, schema):
    return ArrowRelation([pa.Table.from_pylist(rows[part::PARTS], schema) for part in range(PARTS)])


def _table(batches, schema):
    # As Spark does with its checks on: whatever a task yields must have the columns that it promised.
    assert all(batch.schema.equals(schema) for batch in batches), [batch.schema for batch in batches]
    return pa.Table.from_batches(batches, schema)


def _batches(part):
    return part.to_batches(max_chunksize=2)
