"""Columns whose values are made from those of other columns, uploaded beside the files that a table has.

A fragment gets one more data file with the new columns; its other files, its row ids and its deleted rows stay.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.errors import Effect, InternalError
from omnigraph.records import record
from omnigraph.store.handles import UPLOAD_STAGES, metered
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.pins import FragmentRef, data_paths
from omnigraph.store.tables.table import Table
from omnigraph.store.translate import translating

# The bits of a whole number that a double holds exactly.
_DOUBLE_DIGITS = 53


def holds_all(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether every value of one type is a value of another one, so that a column can be given it.

    >>> holds_all(pa.int64(), pa.uint32()), holds_all(pa.int32(), pa.uint32()), holds_all(pa.float64(), pa.int64())
    (True, False, False)
    """
    if pa.types.is_list(wide) and pa.types.is_list(narrow):
        return holds_all(wide.value_type, narrow.value_type)
    if pa.types.is_integer(narrow):
        digits = narrow.bit_width - pa.types.is_signed_integer(narrow)
        if pa.types.is_integer(wide):
            is_signed = bool(pa.types.is_signed_integer(wide))
            return (is_signed or bool(pa.types.is_unsigned_integer(narrow))) and wide.bit_width - is_signed >= digits
        if pa.types.is_decimal128(wide):
            return bool(wide.precision - wide.scale >= len(str(1 << digits)))
        return bool(pa.types.is_float64(wide)) and digits <= _DOUBLE_DIGITS
    if pa.types.is_decimal128(narrow) and pa.types.is_decimal128(wide):
        is_finer = wide.scale >= narrow.scale
        return bool(is_finer and wide.precision - wide.scale >= narrow.precision - narrow.scale)
    return bool(pa.types.is_float64(wide) and pa.types.is_floating(narrow))


@record
class MadeColumns:
    """What was uploaded.

    Args:
        fragments: those of the table, each with one more file; none if nothing had to be made.
        field_ids: the number of each made column, by the name it will have.
        next_field_id: the first number that is free.
        files: the uploaded files, relative to their dataset.
    """

    fragments: tuple[FragmentMetadata, ...]
    field_ids: Mapping[str, int]
    next_field_id: int
    files: tuple[str, ...]

    @classmethod
    def of(
        cls, table: Table, schema: pa.Schema, origins: Mapping[str, str], fills: Mapping[str, pa.Scalar]
    ) -> MadeColumns:
        """Make the columns of ``schema`` that get another type or a value where they would hold null."""
        wanted = [field for field in schema if _is_made(table, field, origins, fills)]
        first_id = table.handle.max_field_id + 1
        field_ids, following = _numbers(wanted, first_id)
        if not wanted or not table.fragments:
            return cls(fragments=(), field_ids=field_ids, next_field_id=following, files=())
        maker = _Maker(wanted=tuple(wanted), origins=origins, fills=fills)
        made, files = [], []
        with (
            translating("write columns", table.pin.location, effect=Effect.STAGED),
            metered(table.handle, stages=UPLOAD_STAGES),
        ):
            for fragment in table.handle.get_fragments():
                known = set(data_paths(fragment.metadata))
                metadata, found = fragment.merge_columns(maker.make, columns=list(maker.reads))
                _check_numbers(found, first_id, maker.names)
                made.append(metadata)
                files += [f"data/{file}" for file in FragmentRef.of(metadata).files if file not in known]
        return cls(fragments=tuple(made), field_ids=field_ids, next_field_id=following, files=tuple(files))


@record
class _Maker:
    wanted: tuple[pa.Field, ...]
    origins: Mapping[str, str]
    fills: Mapping[str, pa.Scalar]

    @property
    def reads(self) -> tuple[str, ...]:
        """The stored columns that are read; the key says how many rows there are if no other does."""
        names = dict.fromkeys(self.origins[field.name] for field in self.wanted if field.name in self.origins)
        return tuple(names) or (KEY,)

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns are called in their file: names that no property can have."""
        return tuple(f"made-{number}" for number in range(len(self.wanted)))

    def make(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the new columns of a batch of stored ones."""
        return pa.record_batch([self._column(field, batch) for field in self.wanted], names=list(self.names))

    def _column(self, field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
        fill = self.fills.get(field.name)
        if field.name not in self.origins:
            return pa.repeat(fill, batch.num_rows)
        stored = batch.column(self.origins[field.name]).cast(field.type)
        return stored if fill is None else pc.fill_null(stored, fill)


def _is_made(table: Table, field: pa.Field, origins: Mapping[str, str], fills: Mapping[str, pa.Scalar]) -> bool:
    return field.name in fills or (field.name in origins and table.schema.field(origins[field.name]).type != field.type)


def _numbers(fields: list[pa.Field], first_id: int) -> tuple[dict[str, int], int]:
    """Return the number that each column gets, and the first that is free after them; parts of lists take some too."""
    numbers, following = {}, first_id
    for field in fields:
        numbers[field.name] = following
        following += _size(field.type)
    return numbers, following


def _size(kind: pa.DataType) -> int:
    return 1 + (_size(kind.value_type) if pa.types.is_list(kind) else 0)


def _check_numbers(found: LanceSchema, first_id: int, names: tuple[str, ...]) -> None:
    given = tuple(field.name() for field in found.fields() if field.id() >= first_id)
    if given != names:
        raise InternalError(f"columns {names} were numbered as {given}")
