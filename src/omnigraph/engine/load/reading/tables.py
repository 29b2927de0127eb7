"""Batches of a table file, CSV or Parquet, into rows of one type.

A reader of Parquet, and whoever hands over batches, may give columns whose bytes contradict their types: texts that are
not UTF-8, offsets that run backwards, indices beyond their dictionary. Once stored, such a column makes every other row
of its type unreadable, so nothing goes on before it has been looked at in full.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.decimals import is_whole
from omnigraph.engine.load.sources.dialect import USUAL, Dialect, plain_column
from omnigraph.engine.load.sources.source import Source
from omnigraph.engine.rows import DecodedChunk, DecodedRow, RowDecoder, RowProblem, TypeRows, join, rows_of
from omnigraph.engine.rows.cells import MAX_PROBLEMS, kind_of, show
from omnigraph.engine.rows.changes import (
    DELETE,
    OP,
    SEQ,
    MarkedColumns,
    Marking,
    can_mark,
    mark_at,
    mark_columns,
    read_marking,
)
from omnigraph.engine.rows.columnar import ColumnChecker, ParsedColumns, complete_upserts
from omnigraph.engine.rows.columns import Flavour, Mask
from omnigraph.errors import BadValue, MissingThing, TypeMissingError, UsageError
from omnigraph.records import record

_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
_ENDPOINT_SPELLINGS = {"src": ("from", "src"), "dst": ("to", "dst")}
# Nobody reads near names of more unknown columns, and looking for them takes its time.
_ADVISED = 20


@record
class ColumnBinding:
    """The type of a file's rows, and the file's column for each table column that it gives.

    ``marks`` are the columns of operations and sequences that a change log has; None for rows of another kind.
    """

    owner: NodeType | EdgeType
    columns: Mapping[str, str]
    marks: Mapping[str, str] | None = None


def owner_of(source: Source, catalog: Catalog) -> NodeType | EdgeType:
    """Return the type that all rows of a table file belong to.

    Raises:
        TypeMissingError: the schema has no type of that name.
        UsageError: a node type and an edge type share the name.
    """
    named = source.type_name or source.stem
    kind, colon, name = named.partition(":")
    if not colon:
        kind, name = "", named
    node = catalog.node(name) if kind in {"", "node"} else None
    edge = catalog.edge(name) if kind in {"", "edge"} else None
    if node is not None and edge is not None:
        details = BadValue(what="type", value=name, expected=f"node:{name} or edge:{name}")
        raise UsageError(f"'{name}' is both a node type and an edge type", details=details)
    owner = node if node is not None else edge
    if owner is None:
        near = tuple(difflib.get_close_matches(name, [*catalog.nodes, *catalog.edges], n=3))
        details_missing = MissingThing(what="type", name=name, near=near)
        file = f"name the type of its rows: --table TYPE={source.name}, in Python a mapping of types to files"
        hint = f"did you mean {near[0]}?" if near else file
        raise TypeMissingError(
            f"the schema has no type '{name}' for file '{source.name}'", details=details_missing, hint=hint
        )
    return owner


def bind(source: Source, owner: NodeType | EdgeType, header: Sequence[str]) -> ColumnBinding | tuple[RowProblem, ...]:
    """Match the columns of a table with those of the type, or return everything that is wrong with them.

    Every column must be one of the type's, unless the dialect says that others are ignored.
    """
    binder = _Binder(source, owner, header)
    binder.take_mapped()
    binder.take_named()
    columns = binder.columns
    marks = {name: columns.pop(name) for name in (OP, SEQ) if name in columns} if source.takes_changes else None
    # Deletes by id do without ends; whether a row is one stands in the row.
    ends = ("src", "dst") if isinstance(owner, EdgeType) and not (marks and OP in marks) else ()
    for target in ends:
        if target not in columns:
            binder.refuse(f"edge {owner.name} requires field '{_ENDPOINT_SPELLINGS[target][0]}'", target)
    return tuple(binder.problems) or ColumnBinding(owner=owner, columns=columns, marks=marks)


def mark_misfits(source: Source, binding: ColumnBinding, schema: pa.Schema) -> Iterator[RowProblem]:
    """Yield a problem for a column that is named like an operation or a sequence and can hold none."""
    for name, column in (binding.marks or {}).items():
        given = schema.field(column).type
        if not can_mark(name, given):
            expected = "text" if name == OP else "whole numbers, instants or text"
            text = f"column '{name}' must hold {expected}, got a column of {given}"
            line = source.header_line
            yield RowProblem(line=line, rule="type", message=text, type_name=binding.owner.name, property=name)


def is_row_number(column: str) -> bool:
    """Return whether a column is the index without a name of a pandas frame, which Parquet and Arrow keep."""
    return _PANDAS_INDEX.fullmatch(column) is not None


class _Binder:
    """Finds the column of each table column, and keeps what is wrong."""

    def __init__(self, source: Source, owner: NodeType | EdgeType, header: Sequence[str]) -> None:
        self._source = source
        self._owner = owner
        self._header = header
        self._known = known_columns(source, owner)
        self.columns: dict[str, str] = {}
        self.problems: list[RowProblem] = []

    def take_mapped(self) -> None:
        """Take the columns that the source maps, one of them for several properties perhaps."""
        for name, column in self._source.columns.items():
            if name not in self._known:
                self._refuse_unknown(name)
            elif column not in self._header:
                near = difflib.get_close_matches(column, self._header, n=1)
                advice = f"; did you mean '{near[0]}'?" if near else ""
                text = f"property '{name}' is mapped to column '{column}', which the file does not have{advice}"
                self.refuse(text, name)
            else:
                self._take(self._known[name], column)

    def take_named(self) -> None:
        """Take the columns that are called as table columns are, unless they are mapped."""
        mapped = set(self._source.columns.values())
        for column in self._header:
            if column in mapped:
                if self._header.count(column) > 1:
                    self.refuse(f"two columns are called '{column}'", column)
            elif column in self._known:
                self._take(self._known[column], column)
            elif not self._source.dialect.ignore_extra_columns and not is_row_number(column):
                self._refuse_unknown(column)

    def refuse(self, message: str, column: str) -> None:
        """Note what is wrong with a column."""
        name, line = show(column)[1:-1], self._source.header_line
        problem = RowProblem(line=line, rule="field", message=message, type_name=self._owner.name, property=name)
        self.problems.append(problem)

    def _take(self, target: str, column: str) -> None:
        if target in self.columns:
            self.refuse(f"two columns map to '{target}': '{self.columns[target]}' and '{column}'", column)
        else:
            self.columns[target] = column

    def _refuse_unknown(self, name: str) -> None:
        near = difflib.get_close_matches(name, list(self._known), n=1) if len(self.problems) < _ADVISED else ()
        advice = f"; did you mean '{near[0]}'?" if near else ""
        self.refuse(f"unknown input field '{show(name)[1:-1]}' for {self._owner.name}{advice}", name)


def known_columns(source: Source, owner: NodeType | EdgeType) -> dict[str, str]:
    """Return the table column for each name that a column may have; those of a change log have marks as well."""
    known = {"id": "id", **{prop.name: prop.name for prop in owner.properties}}
    if source.takes_changes:
        known |= {name: name for name in (OP, SEQ)}
    if isinstance(owner, EdgeType) and source.is_exported:
        known |= {column: column for column in _ENDPOINT_SPELLINGS}
    elif isinstance(owner, EdgeType):
        for column, spellings in _ENDPOINT_SPELLINGS.items():
            # A property of the same name, which the schema language allows, gives way to the endpoint.
            known |= dict.fromkeys(spellings, column)
    return known


_BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


@record
class SoundRows:
    """The rows that are as their types say, with their lines, and a problem for each of the others."""

    batch: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    problems: tuple[RowProblem, ...] = ()


def sound_rows(
    owner: NodeType | EdgeType, targets: Mapping[str, str], batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]
) -> SoundRows:
    """Return the sound rows of a batch; ``targets`` has the property of each of its columns.

    A column that is broken as a whole leaves no row, and its problem has the line of the first one.
    """
    if _flaw(batch) is None:
        return SoundRows(batch=batch, numbers=numbers)
    problems: dict[int, RowProblem] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        flaw = _flaw(column)
        if flaw is None:
            continue
        broken = _broken_texts(column)
        if not broken:
            text = f"column '{name}' is damaged: {flaw}"
            problem = RowProblem(
                line=int(numbers[0]), rule="arrow", message=text, type_name=owner.name, property=targets.get(name)
            )
            return SoundRows(batch=batch.slice(0, 0), numbers=numbers[:0], problems=(problem,))
        for at, value in broken.items():
            problem = RowProblem(
                line=int(numbers[at]),
                rule="arrow",
                message=f"invalid UTF-8 in column '{name}'",
                type_name=owner.name,
                property=targets.get(name),
                value=show(value),
            )
            problems.setdefault(at, problem)
    # Without a copy of the buffers of the broken rows, which would be looked at again.
    keep = np.setdiff1d(np.arange(batch.num_rows), list(problems))
    return SoundRows(
        batch=batch.take(pa.array(keep)),
        numbers=numbers[keep],
        problems=tuple(problems[at] for at in sorted(problems)),
    )


def _flaw(data: pa.RecordBatch | pa.Array) -> str | None:
    try:
        data.validate(full=True)
    except pa.ArrowException as error:
        return (str(error).splitlines() or ["unknown reason"])[0]
    return None


def _broken_texts(column: pa.Array) -> dict[int, Any]:
    """Return the rows whose texts are not UTF-8, each with what it holds; none when something else is wrong."""
    try:
        plain = _as_bytes(column)
    except (pa.ArrowException, ValueError):
        return {}
    if plain is None or _flaw(plain) is not None:
        return {}
    return {at: value for at, value in enumerate(plain.to_pylist()) if _is_broken(value)}


def _as_bytes(column: pa.Array) -> pa.Array | None:
    if pa.types.is_dictionary(column.type):
        values = _as_bytes(column.dictionary)
        return None if values is None else pa.DictionaryArray.from_arrays(column.indices, values)
    wanted = _bytes_type(column.type)
    return None if wanted is None else column.view(wanted)


def _bytes_type(given: pa.DataType) -> pa.DataType | None:
    if pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given):
        item = _bytes_type(given.value_type)
        if item is None:
            return None
        if pa.types.is_fixed_size_list(given):
            return pa.list_(item, given.list_size)
        return pa.large_list(item) if pa.types.is_large_list(given) else pa.list_(item)
    return _BINARY.get(given)


def _is_broken(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_broken, value))
    if not isinstance(value, bytes):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


_TEXT = PropertyType(scalar=Scalar.STRING)
_ENDPOINTS = {"src": "from", "dst": "to"}


@record
class ParsedColumn:
    """A column after its first parsing, and how to get the value of one of its cells for a closer look."""

    values: pa.Array
    flavour: Flavour
    bad: Mask | None
    value_at: Callable[[int], Any]


Parse = Callable[[PropertyType, pa.Array], ParsedColumn]


class TableReader:
    """Turns batches of bound columns into rows; what does not fit is named by the exact decoder."""

    def __init__(
        self,
        catalog: Catalog,
        binding: ColumnBinding,
        parse: Parse,
        *,
        is_patch: bool,
        truncate: bool = False,
        dialect: Dialect = USUAL,
    ) -> None:
        self._binding = binding
        self._owner = binding.owner
        self._dialect = dialect
        self._targets = {column: target for target, column in binding.columns.items()}
        self._parse = parse
        self._takes_changes = binding.marks is not None
        is_patch = is_patch or self._takes_changes
        self._is_patch = is_patch
        self._decoder = RowDecoder(catalog, is_patch=is_patch, truncate=truncate, takes_changes=self._takes_changes)
        self._checker = ColumnChecker(binding.owner, is_patch=is_patch, truncate=truncate)

    def read(self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]) -> DecodedChunk:
        """Return the rows of a batch, whose lines are ``numbers``. Nothing in it is believed before it is validated."""
        sound = sound_rows(self._owner, self._targets, batch, numbers)
        batch, numbers = sound.batch, sound.numbers
        count = batch.num_rows
        parsed = {
            target: self._parse(column_kind(self._owner, target), self._clean(target, batch.column(name)))
            for target, name in self._binding.columns.items()
        }
        doubt = np.zeros(count, dtype=bool)
        for column in parsed.values():
            if column.bad is not None:
                doubt |= column.bad
        sure = self._checker.check(
            ParsedColumns(
                values={target: column.values for target, column in parsed.items()},
                flavours={target: column.flavour for target, column in parsed.items()},
                doubt=doubt,
                numbers=numbers,
                given=self._given(count) if self._is_patch else None,
                marks=self._marks(batch),
            )
        )
        problems: list[RowProblem] = []
        exact: list[DecodedRow] = []
        for row in self._decode(parsed, sure.doubtful, numbers, batch):
            if isinstance(row, RowProblem):
                problems.append(row)
                if len(problems) >= MAX_PROBLEMS:
                    break
            else:
                exact.append(row)
        parts: list[TypeRows] = [sure.rows]
        if exact:
            parts.append(rows_of(self._owner, exact, is_patch=self._is_patch))
        problems = sorted((*sound.problems, *problems), key=lambda problem: problem.line or 0)
        decoded = DecodedChunk(types={self._owner.table_key: join(parts)}, problems=tuple(problems))
        return complete_upserts(decoded) if self._takes_changes else decoded

    def _marks(self, batch: pa.RecordBatch) -> MarkedColumns | None:
        marks = self._binding.marks
        if marks is None:
            return None
        ops, sequences = (
            plain_column(self._dialect.clean(batch.column(marks[name]))) if name in marks else None
            for name in (OP, SEQ)
        )
        return mark_columns(ops, sequences, batch.num_rows)

    def _clean(self, target: str, column: pa.Array) -> pa.Array:
        column = self._dialect.clean(column)
        if not takes_integers(self._owner, target):
            return column
        plain = plain_column(column)
        return plain.cast(pa.string()) if is_whole(plain.type) else column

    def _given(self, count: int) -> Mapping[str, pa.Array]:
        # A column that the file has is given for every row; an empty cell gives null.
        return {
            prop.name: pa.array(np.full(count, prop.name in self._binding.columns)) for prop in self._owner.properties
        }

    def _decode(
        self,
        parsed: Mapping[str, ParsedColumn],
        doubtful: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64],
        batch: pa.RecordBatch,
    ) -> Iterator[DecodedRow | RowProblem]:
        for at in doubtful.tolist():
            line = int(numbers[at])
            cells = {target: column.value_at(at) for target, column in parsed.items()}
            if self._binding.marks is None:
                yield decode_cells(self._decoder, self._owner, cells, line)
                continue
            written = {name: mark_at(batch.column(column)[at]) for name, column in self._binding.marks.items()}
            marking = read_marking({name: self._dialect.clean_value(value) for name, value in written.items()}, line)
            if isinstance(marking, RowProblem):
                yield replace(marking, type_name=self._owner.name)
            else:
                yield decode_cells(self._decoder, self._owner, cells, line, marking)


def decode_cells(
    decoder: RowDecoder, owner: NodeType | EdgeType, cells: dict[str, Any], line: int, marking: Marking | None = None
) -> DecodedRow | RowProblem:
    """Return the row that JSON values by table column make, or what is wrong with it; an id of null is none.

    ``marking`` is what stands beside the values of a row of a change log.
    """
    ends = {target: cells.pop(target, None) for target in _ENDPOINTS} if isinstance(owner, EdgeType) else {}
    is_delete = marking is not None and marking.op == DELETE
    for target, value in ends.items():
        if not isinstance(value, str) and not (value is None and is_delete):
            return RowProblem(
                line=line,
                rule="envelope",
                message=f"field '{_ENDPOINTS[target]}' must be a string, got {kind_of(value)}",
                type_name=owner.name,
                property=_ENDPOINTS[target],
                value=show(value),
            )
    if cells.get("id", "") is None:
        del cells["id"]
    src, dst = ends.get("src"), ends.get("dst")
    if marking is None:
        return decoder.decode_row(owner, cells, line, src=src, dst=dst)
    return decoder.decode_change(owner, cells, line, marking, src=src, dst=dst)


def takes_integers(owner: NodeType | EdgeType, target: str) -> bool:
    """Whether whole numbers may stand for the texts of a column: ids do not care how many bytes they came in."""
    is_key = target in {"id", "src", "dst"} or target in (owner.key or ())
    kind = column_kind(owner, target)
    return is_key and kind.scalar is Scalar.STRING and not kind.is_list


def column_kind(owner: NodeType | EdgeType, target: str) -> PropertyType:
    """Return the type of a table's column: that of its property, text for ids."""
    prop = owner.get(target) if target not in {"id", "src", "dst"} else None
    return _TEXT if prop is None else prop.type
