"""Group columns in a form that Arrow groups exactly and quickly, and back."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from omnigraph.engine.predicates import comparable
from omnigraph.records import record

_WIDE_BITS = 64


@record
class GroupKey:
    """One group column.

    Args:
        values: what to group by.
        of: the type of the column.
        dictionary: what ``values`` number; None when they are the column itself.
    """

    values: pa.Array
    of: pa.DataType
    dictionary: pa.Array | None = None

    @classmethod
    def encode(cls, column: pa.Array) -> GroupKey:
        """Return a column as something to group by, equal exactly where its values are."""
        if pa.types.is_nested(column.type):
            return cls(values=_packed(column), of=column.type)
        values = comparable(column)
        if not pa.types.is_primitive(values.type) or values.type.bit_width < _WIDE_BITS:
            return cls(values=values, of=column.type)
        # Arrow's grouping puts wide numbers whose low bits are all zero, as those of most doubles, into one bucket.
        numbered = values.dictionary_encode()
        return cls(values=numbered.indices, of=column.type, dictionary=numbered.dictionary)

    def decode(self, groups: pa.ChunkedArray) -> pa.Array:
        """Return the groups' values as the column has them."""
        values = pa.concat_arrays([pa.array([], groups.type), *groups.chunks])
        if pa.types.is_nested(self.of):
            return _unpacked(values, self.of)
        if self.dictionary is not None:
            values = self.dictionary.take(values)
        return values if values.type == self.of else values.view(self.of)


def _packed(values: pa.Array) -> pa.Array:
    encoder = msgspec.msgpack.Encoder()
    flat = values.cast(pa.list_(_plain(values.type.value_type)))
    return pa.array([None if item is None else encoder.encode(item) for item in flat.to_pylist()], pa.binary())


def _unpacked(values: pa.Array, of: pa.DataType) -> pa.Array:
    decoder = msgspec.msgpack.Decoder()
    items = [None if item is None else decoder.decode(item) for item in values.to_pylist()]
    return pa.array(items, pa.list_(_plain(of.value_type))).cast(of)


def _plain(of: pa.DataType) -> pa.DataType:
    return {pa.date32(): pa.int32(), pa.date64(): pa.int64()}.get(of, of)
