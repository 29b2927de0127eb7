"""Records with their blocks: which are compared with which, and which blocks are too large for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph.errors import BadValue, ResolveInputError
from omnigraph.records import record
from omnigraph.spark.queries.relations import FrameRelation, translated
from omnigraph.spark.resolution.comparing import BLOCK, BLOCKS, EARLIER, KEY, CompareTask, PrepareTask, value_column
from omnigraph.spark.resolution.model import Comparison, Resolution

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

DOING = "resolve entities"
_SHOWN = 3
# Parts for each part of a shuffle: blocks differ in their pairs far more than in their rows.
_PARTS = 4


@record
class Blocks:
    """The records that share blocks, in column ``block``, and what there is to tell of the blocks."""

    rows: DataFrame
    skipped: DataFrame
    count: int
    skipped_count: int
    skipped_pairs: int


def prepared_records(frame: DataFrame, id_column: str, resolution: Resolution) -> DataFrame:
    """Return the records as they are compared, made once: ``key``, the names of their ``blocks``, and values.

    Raises:
        ResolveInputError: a column or an expression does not fit, or ids are missing or not unique.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - Spark is loaded when it is used

    columns = [
        id_text(frame, "id_column", id_column).alias(KEY),
        _block_names(frame, resolution).alias(BLOCKS),
        *(_value(frame, one).alias(value_column(number)) for number, one in enumerate(resolution.comparisons)),
    ]
    task = PrepareTask(comparisons=resolution.comparisons)
    with translated(DOING):
        chosen = frame.select(*columns)
        made = FrameRelation(frame=chosen, names=tuple(chosen.columns)).map(task).made().localCheckpoint()
        twice = made.groupBy(KEY).agg(sql.count(sql.lit(1)).alias("rows"))
        found = twice.where("rows > 1 or key is null").orderBy(KEY).limit(_SHOWN).collect()
    if found:
        _refuse_ids(id_column, [row[KEY] for row in found])
    return made


def _refuse_ids(id_column: str, keys: list[str | None]) -> None:
    if keys[0] is None:
        details = BadValue(what=id_column, value="null", expected="an id for every record")
        raise ResolveInputError(f"records without an id in column '{id_column}'", details=details)
    shown = ", ".join(f"'{key}'" for key in keys)
    details = BadValue(what=id_column, value=str(keys[0]), expected="a unique id for every record")
    raise ResolveInputError(f"several records have the same id in column '{id_column}': {shown}", details=details)


def make_blocks(records: DataFrame, resolution: Resolution, parallelism: int) -> Blocks:
    """Return the records once for each block that is compared.

    Raises:
        ResolveInputError: a block is too large, and the resolution shall fail then.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    placed = records.select(KEY, sql.explode(BLOCKS).alias("name"))
    with translated(DOING):
        sizes = placed.groupBy("name").agg(sql.count(KEY).alias("rows")).where("rows > 1").localCheckpoint()
        large = sql.col("rows") > resolution.max_block_rows
        pairs = sql.expr("rows * (rows - 1) div 2")
        told = sizes.agg(
            sql.count("name"), sql.count_if(large), sql.coalesce(sql.sum(sql.when(large, pairs)), sql.lit(0))
        ).collect()[0]
    skipped = sizes.where(large).select(*_block_parts(resolution), "rows", pairs.alias("pairs"))
    if told[1] and resolution.on_large_block == "fail":
        _refuse_blocks(resolution, skipped, told[1])
    with translated(DOING):
        # Numbers differ from run to run, which changes nothing: they only have to be the same in both uses.
        numbered = sizes.where(~large).select("name", sql.monotonically_increasing_id().alias(BLOCK)).localCheckpoint()
        numbers = placed.join(numbered.hint("shuffle_hash"), "name").groupBy(KEY)
        of_record = numbers.agg(sql.sort_array(sql.collect_list(BLOCK)).alias("numbers"))
        wide = records.drop(BLOCKS).join(of_record.hint("shuffle_hash"), KEY)
        rows = wide.withColumn(BLOCK, sql.explode("numbers"))
        rows = rows.withColumn(EARLIER, sql.expr(f"filter(numbers, one -> one < {BLOCK})")).drop("numbers")
        rows = rows.repartition(_PARTS * parallelism, BLOCK).sortWithinPartitions(BLOCK, KEY)
    return Blocks(rows=rows, skipped=skipped, count=told[0], skipped_count=told[1], skipped_pairs=int(told[2]))


def compared_pairs(blocks: Blocks, resolution: Resolution) -> DataFrame:
    """Return the pairs that reach the floor, made once, and counts of pairs in rows without one."""
    rows = FrameRelation(frame=blocks.rows, names=tuple(blocks.rows.columns))
    with translated(DOING):
        return rows.map(CompareTask(resolution=resolution)).made().localCheckpoint()


def _block_parts(resolution: Resolution) -> list[Column]:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    number = sql.substring_index("name", ":", 1).cast("int")
    texts = sql.array(*(sql.lit(text) for text in resolution.blocking))
    value = sql.expr("substring(name, instr(name, ':') + 1)")
    return [sql.element_at(texts, number + 1).alias("expression"), value.alias("value")]


def _refuse_blocks(resolution: Resolution, skipped: DataFrame, count: int) -> None:
    with translated(DOING):
        first = skipped.orderBy("rows", "expression", "value", ascending=[False, True, True]).limit(1).collect()[0]
    details = BadValue(what="block", value=str(first["rows"]), expected=f"up to {resolution.max_block_rows}")
    raise ResolveInputError(
        f"blocks with too many records: {count}, the largest is '{first['value']}' "
        f"of expression '{first['expression']}' with {first['rows']}",
        details=details,
        hint="use an expression with more distinct values, or raise max_block_rows",
    )


def _block_names(frame: DataFrame, resolution: Resolution) -> Column:
    """Return the blocks of a record: the number of an expression and a value of it."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above
    from pyspark.sql.types import ArrayType  # noqa: PLC0415 - see above

    parts = []
    for number, text in enumerate(resolution.blocking):
        what = f"blocking expression '{text}'"
        kind = _type_of(frame, what, text)
        values = sql.expr(text) if isinstance(kind, ArrayType) else sql.array(sql.expr(text))
        as_text = _text_of(what, kind.elementType if isinstance(kind, ArrayType) else kind)
        parts.append(_named(values, f"{number}:", as_text))
    return sql.filter(sql.array_distinct(sql.concat(*parts)), lambda one: one.isNotNull())


def _named(values: Column, tag: str, as_text: Callable[[Column], Column]) -> Column:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    names = sql.transform(values, lambda one: sql.concat(sql.lit(tag), as_text(one)))
    return sql.coalesce(names, sql.array().cast("array<string>"))


def _value(frame: DataFrame, comparison: Comparison) -> Column:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above
    from pyspark.sql.types import ArrayType, NumericType, StringType  # noqa: PLC0415 - see above

    column = _column(frame, "column", comparison.column)
    kind = _type_of(frame, f"column '{comparison.column}'", column)
    value = sql.expr(column)
    if comparison.method == "exact":
        return _text_of(f"column '{comparison.column}'", kind)(value)
    if comparison.method == "vector_distance":
        is_vector = isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)
        if not is_vector:
            _refuse_type(comparison, kind, "a list of numbers")
        return value.cast("array<double>")
    if not isinstance(kind, StringType):
        _refuse_type(comparison, kind, "text")
    return value.cast("string")


def _refuse_type(comparison: Comparison, kind: DataType, expected: str) -> None:
    found = kind.simpleString()
    raise ResolveInputError(
        f"{comparison.method} compares {expected}, but column '{comparison.column}' is {found}",
        details=BadValue(what=comparison.column, value=found, expected=expected),
    )


def id_text(frame: DataFrame, what: str, name: str) -> Column:
    """Return a column of ids as texts.

    Raises:
        ResolveInputError: there is no such column, or its values cannot be ids.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    column = _column(frame, what, name)
    return _text_of(f"column '{name}'", _type_of(frame, f"column '{name}'", column))(sql.expr(column))


def _column(frame: DataFrame, what: str, name: str) -> str:
    if name in frame.columns:
        return "`" + name.replace("`", "``") + "`"
    known = ", ".join(frame.columns)
    details = BadValue(what=what, value=name, expected=known)
    raise ResolveInputError(f"column '{name}' does not exist", details=details, hint=f"its columns are {known}")


def _type_of(frame: DataFrame, what: str, text: str) -> DataType:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see above
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

    try:
        return frame.select(sql.expr(text)).schema.fields[0].dataType
    except PySparkException as problem:
        reason = next((line.strip() for line in str(problem).splitlines() if line.strip()), "it cannot be read")
        details = BadValue(what=what, value=text, expected="an SQL expression over the columns")
        raise ResolveInputError(f"{what} cannot be used: {reason}", details=details) from problem


def _text_of(what: str, kind: DataType) -> Callable[[Column], Column]:
    """Return what makes texts of values, different ones of different values.

    Raises:
        ResolveInputError: values consist of several parts.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - see above
    from pyspark.sql.types import AtomicType, BinaryType  # noqa: PLC0415 - see above

    if isinstance(kind, BinaryType):
        return sql.hex
    if isinstance(kind, AtomicType):
        return lambda value: value.cast("string")
    details = BadValue(what=what, value=kind.simpleString(), expected="a single value")
    raise ResolveInputError(f"{what} must be a simple value, not {kind.simpleString()}", details=details)
