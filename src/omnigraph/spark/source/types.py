"""Values of a graph as Spark has them, and back: the same values, in the types that both sides know.

Unsigned 32-bit integers become ``bigint`` and unsigned 64-bit ones ``decimal(20,0)``, as Spark's own Parquet reader
shows them, because nothing smaller holds them all. Instants are ``timestamp`` in UTC, vectors ``array<float>``, blobs
``binary`` and enums ``string``.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from omnigraph.errors import BadValue, UsageError

_PLAIN: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.date64(): TimestampType(),
    pa.null(): StringType(),
}


def spark_type(of: pa.DataType) -> DataType:
    """Return the Spark type for values of an Arrow type.

    Raises:
        UsageError: there is none.
    """
    if of in _PLAIN:
        return _PLAIN[of]
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return ArrayType(spark_type(of.value_type), containsNull=True)
    if pa.types.is_struct(of):
        return StructType([_field(of.field(number)) for number in range(of.num_fields)])
    if pa.types.is_timestamp(of):
        return TimestampType()
    if pa.types.is_decimal128(of):
        return DecimalType(of.precision, of.scale)
    details = BadValue(what="type", value=str(of), expected="a type that Spark supports")
    raise UsageError(f"Spark has no type for values of type {of}", details=details)


def spark_schema(of: pa.Schema) -> StructType:
    """Return the Spark schema for rows of an Arrow schema.

    Raises:
        UsageError: two columns have one name, which Spark tells apart by nothing else, or a type has no counterpart.
    """
    names = [name.lower() for name in of.names]
    for name in of.names:
        if names.count(name.lower()) > 1:
            details = BadValue(what="column", value=name, expected="names that differ by more than letter case")
            raise UsageError(f"two columns are named '{name}'", details=details)
    return StructType([_field(field) for field in of])


def check_columns(wanted: StructType, known: pa.Schema) -> None:
    """See that columns which a caller names by a schema of its own are there, as they are.

    Raises:
        UsageError: one is not.
    """
    kinds = {field.name: field.dataType for field in spark_schema(known).fields}
    for field in wanted.fields:
        if kinds.get(field.name) != field.dataType:
            expected = ", ".join(f"{name} {kind.simpleString()}" for name, kind in kinds.items())
            details = BadValue(what="column", value=f"{field.name} {field.dataType.simpleString()}", expected=expected)
            raise UsageError(f"column '{details.value}' was not found", details=details)


def wire_schema(of: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark takes and gives rows of a Spark schema."""
    schema: pa.Schema = to_arrow_schema(of, timezone="UTC")
    return schema


def to_wire(batch: pa.RecordBatch, wire: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns, the order and the types of ``wire``."""
    arrays = [batch.column(field.name).cast(field.type) for field in wire]
    return pa.RecordBatch.from_arrays(arrays, schema=wire)


def plain_schema(of: StructType) -> pa.Schema:
    """Return the Arrow schema of rows that Spark gives, decimals without a fraction as the integers they are."""
    return pa.schema([pa.field(field.name, _whole(field.type)) for field in wire_schema(of)])


def _field(field: pa.Field) -> StructField:
    return StructField(field.name, spark_type(field.type), nullable=field.nullable)


def _whole(of: pa.DataType) -> pa.DataType:
    if pa.types.is_list(of):
        return pa.list_(_whole(of.value_type))
    return pa.int64() if pa.types.is_decimal(of) and of.scale == 0 else of
