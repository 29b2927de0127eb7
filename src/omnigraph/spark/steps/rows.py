"""The rows of one step of a pipeline: a frame, what its columns mean for a type, and what must hold for each row.

Everything that is said in SQL becomes columns of the frame, computed by Spark where the rows are. A row keeps the
columns that it came with beside them, so that one that is rejected can be told as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.load import OnDelete
from omnigraph.engine.rows.changes import OP, SEQ
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.spark.jobs import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

StepMode = Literal["merge", "append", "overwrite", "patch"]
RuleOutcome = Literal["fail", "drop", "quarantine", "warn"]
MissingEnd = Literal["fail", "quarantine", "stub"]

# Columns of ours; no property can have such a name.
_OURS = "__og_"
FILE = f"{_OURS}file"
RETIRED = f"{_OURS}retired"
"""The id of an entity that is none any more, in rows that delete it."""
_OP, _SEQ, _ID, _PLACE = f"{_OURS}op", f"{_OURS}seq", f"{_OURS}id", f"{_OURS}place"
_ENDS = {"from": "src", "to": "dst"}
# Operators of a plan that put rows of two inputs together; UNION is none of them.
_PAIRS = re.compile(r"^[\s:+-]*(\w*Join|Intersect|Except)\b", re.MULTILINE)


@record
class RowRule:
    """A condition in SQL that holds for good rows, and what becomes of the others."""

    name: str
    condition: str
    outcome: RuleOutcome


@record
class EndNaming:
    """How rows name an end of an edge: by one expression for its id, or by one for each value of its type's key."""

    expressions: tuple[str, ...]
    is_key: bool = False


@record
class StepRows:
    """The rows of one type, and what is to be done with them.

    Args:
        name: the step.
        table_key: the type, as ``node:Person``.
        frame: the rows, with the columns that the step gives them.
        set: an expression for a property whose column is not called as it is.
        key: an expression that is unique for an entity.
        src: how rows name the source of an edge, if not by the column ``from``.
        dst: how they name its target, if not by the column ``to``.
        mode: what becomes of stored rows.
        deletes: a condition for rows that delete.
        sequence: an expression that orders the rows of an entity; the greatest wins.
        on_delete: what becomes of the edges of a node that is deleted.
        dedupe: an order that keeps the first row of an entity.
        missing_end: what becomes of an edge whose end does not exist.
        rules: what must hold for each row.
        removes_missing: stored rows go that the frame does not have.
        sources: where the rows come from, for those that look for a rejected one.
    """

    name: str
    table_key: str
    frame: Any
    set: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    key: str | None = None
    src: EndNaming | None = None
    dst: EndNaming | None = None
    mode: StepMode = "merge"
    deletes: str | None = None
    sequence: str | None = None
    on_delete: OnDelete = "cascade"
    dedupe: str | None = None
    missing_end: MissingEnd = "fail"
    rules: tuple[RowRule, ...] = ()
    removes_missing: bool = False
    sources: tuple[str, ...] = ()

    @property
    def is_log(self) -> bool:
        """Whether rows say what is to be done with them, so that they have to be folded."""
        has_marks = not {OP, SEQ}.isdisjoint(self.frame.columns)
        return self.mode == "patch" or has_marks or not (self.deletes is None and self.sequence is None)

    @property
    def is_ordered(self) -> bool:
        """Whether it is said which of several rows of an entity counts."""
        return self.sequence is not None or self.dedupe is not None or SEQ in self.frame.columns


@record
class EndKey:
    """An end of an edge that is named by the key of its node: the columns of the key's values, in the key's order."""

    side: str
    node: NodeType
    columns: tuple[str, ...]
    target: str


@record
class PreparedRows:
    """A frame with everything that tasks need to know of each row.

    Args:
        step: the step.
        owner: the type.
        frame: the columns of the step, and ours beside them.
        originals: the names of the step's own columns.
        mapped: the frame's column for a column of the table, where the names differ.
        ends: ends that tasks have to make ids for.
        rule_columns: a column for each rule, true where it holds.
        place: the column of a row's place among those of its entity, if only the first of them counts.
    """

    step: StepRows
    owner: NodeType | EdgeType
    frame: Any
    originals: tuple[str, ...]
    mapped: Mapping[str, str]
    ends: tuple[EndKey, ...] = ()
    rule_columns: tuple[str, ...] = ()
    place: str | None = None


def owner_of_step(step: StepRows, catalog: Catalog) -> NodeType | EdgeType:
    """Return the type of a step.

    Raises:
        UsageError: the schema has no such type.
    """
    kind, _, name = step.table_key.partition(":")
    found = catalog.node(name) if kind == "node" else catalog.edge(name)
    if found is None:
        details = BadValue(what="type", value=name, expected=f"a type of {kind}s")
        raise UsageError(f"step '{step.name}' writes type '{name}', which the schema does not have", details=details)
    return found


def with_retired(step: StepRows, retired: DataFrame, key: str) -> StepRows:
    """Return the rows of entities, and beside them rows that delete those that are none any more.

    Args:
        step: the rows of entities.
        retired: the ids of others, in ``__og_retired``.
        key: the key of the type.
    """
    # Nothing but the key counts of a row that deletes, whatever its rules say.
    made_of = step.set.get(key) or step.key or f"`{key}`"
    expression = f"coalesce({RETIRED}, CAST(({made_of}\n) AS STRING))"
    is_set = key in step.set
    is_gone = f"{RETIRED} IS NOT NULL"
    return replace(
        step,
        frame=step.frame.unionByName(retired, allowMissingColumns=True),
        set={**step.set, key: expression} if is_set else step.set,
        key=None if is_set else expression,
        deletes=is_gone if step.deletes is None else f"{is_gone} OR ({step.deletes}\n)",
        rules=tuple(replace(rule, condition=f"{is_gone} OR ({rule.condition}\n)") for rule in step.rules),
    )


def prepare(step: StepRows, catalog: Catalog, *, as_log: bool, keeps_files: bool = False) -> PreparedRows:
    """Return the frame of a step with columns for all that it says in SQL.

    Args:
        step: the step.
        catalog: the schema.
        as_log: rows are to be folded, so that each says what is to be done with it.
        keeps_files: every row is to say which file it came from, and not only those that are rejected.

    Raises:
        UsageError: the schema has no such type, or a key cannot be made as the step says.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    owner = owner_of_step(step, catalog)
    preparing = _Preparing(step, owner)
    preparing.take_properties()
    preparing.take_key()
    if isinstance(owner, EdgeType):
        preparing.take_ends(catalog)
    if as_log:
        preparing.take_marks()
    rule_columns = tuple(f"{_OURS}rule{number}" for number in range(len(step.rules)))
    flags = {
        column: fn.coalesce(fn.expr(rule.condition).cast("boolean"), fn.lit(False))
        for column, rule in zip(rule_columns, step.rules, strict=True)
    }
    rejecting = [
        fn.col(column)
        for column, rule in zip(rule_columns, step.rules, strict=True)
        if rule.outcome in {"quarantine", "fail"}
    ]
    frame = step.frame
    if flags:
        seen = with_set(frame, step.set)
        added = [name for name in seen.columns if name not in frame.columns]
        frame = seen.withColumns(flags).drop(*added)
    if preparing.columns:
        frame = frame.withColumns(preparing.columns)
    if keeps_files:
        frame = _with_files(frame, fn.lit(True))
    elif rejecting:
        # Only of rows that somebody will look for: a text of each row has its price.
        good = rejecting[0]
        for one in rejecting[1:]:
            good = good & one
        frame = _with_files(frame, ~good)
    if step.dedupe is not None:
        frame = _with_places(frame, step, preparing, owner)
    return PreparedRows(
        step=step,
        owner=owner,
        frame=frame,
        originals=tuple(step.frame.columns),
        mapped=preparing.mapped,
        ends=tuple(preparing.ends),
        rule_columns=rule_columns,
        place=None if step.dedupe is None else _PLACE,
    )


def with_set(frame: DataFrame, given: Mapping[str, str]) -> DataFrame:
    """Return a frame as conditions see it: its columns, and the properties that ``given`` adds to them."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    known = {name.lower() for name in frame.columns}
    added = {name: fn.expr(text) for name, text in given.items() if name.lower() not in known}
    return frame.withColumns(added) if added else frame


class _Preparing:
    """Collects the columns that a step needs beside its own."""

    def __init__(self, step: StepRows, owner: NodeType | EdgeType) -> None:
        self._step = step
        self._owner = owner
        self.columns: dict[str, Column] = {}
        self.mapped: dict[str, str] = {}
        self.ends: list[EndKey] = []

    def put(self, name: str, column: Column) -> None:
        """Add a column."""
        self.columns[name] = column

    def take_properties(self) -> None:
        """Take the properties that have expressions."""
        for name, expression in self._step.set.items():
            self._map(name, expression)

    def take_key(self) -> None:
        """Take the expression for the key: that of the schema if it is one column, else the id itself."""
        key, owner = self._step.key, self._owner
        if key is None:
            return
        if owner.key is None:
            self._map("id", f"CAST({key} AS STRING)")
        elif len(owner.key) == 1 and owner.key[0] not in {"src", "dst"}:
            if owner.key[0] not in self.mapped and not _is_same(key, owner.key[0]):
                self._map(owner.key[0], key)
        elif [part.strip() for part in key.split(",")] != list(owner.key):
            expected = f"the columns of the key of {owner.name}: {', '.join(owner.key)}"
            raise UsageError(
                f"the key of step '{self._step.name}' differs from the key of {owner.name}",
                details=BadValue(what="key", value=key[:80], expected=expected),
            )

    def take_ends(self, catalog: Catalog) -> None:
        """Take the expressions for the ends of an edge."""
        assert isinstance(self._owner, EdgeType)  # noqa: S101 - asked by the caller
        for target, said, name in (
            ("from", self._step.src, self._owner.from_type),
            ("to", self._step.dst, self._owner.to_type),
        ):
            if said is None:
                continue
            node = catalog.nodes[name]
            if said.is_key and node.key is not None:
                self._take_end(target, node, said.expressions)
            else:
                self._map(target, f"CAST({said.expressions[0]} AS STRING)")

    def take_marks(self) -> None:
        """Take what stands beside the values of a row of a change log."""
        from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

        step = self._step
        usual = "patch" if step.mode == "patch" else "upsert"
        if step.deletes is not None:
            otherwise = fn.col(f"`{OP}`") if OP in step.frame.columns else fn.lit(usual)
            self.put(_OP, fn.when(fn.expr(step.deletes), fn.lit("delete")).otherwise(otherwise))
            self.mapped[OP] = _OP
        elif usual == "patch" and OP not in step.frame.columns:
            self.put(_OP, fn.lit(usual))
            self.mapped[OP] = _OP
        if step.sequence is not None:
            self.put(_SEQ, fn.expr(step.sequence))
            self.mapped[SEQ] = _SEQ

    def _take_end(self, target: str, node: NodeType, arguments: tuple[str, ...]) -> None:
        from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

        if len(arguments) != len(node.key or ()):
            details = BadValue(what="end", value=target, expected=f"{node.name}({', '.join(node.key or ())})")
            raise UsageError(
                f"end '{target}' of step '{self._step.name}' does not contain the key of {node.name}", details=details
            )
        columns = []
        for number, argument in enumerate(arguments):
            name = f"{_OURS}{_ENDS[target]}{number}"
            self.put(name, fn.expr(argument))
            columns.append(name)
        column = f"{_OURS}{_ENDS[target]}"
        self.ends.append(EndKey(side=target, node=node, columns=tuple(columns), target=column))
        self.mapped[target] = column

    def _map(self, target: str, expression: str) -> None:
        from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

        column = _ID if target == "id" else f"{_OURS}set_{target}"
        self.put(column, fn.expr(expression))
        self.mapped[target] = column


def _with_files(frame: DataFrame, wanted: Column) -> DataFrame:
    """Return the frame with the file of each row that it is wanted of; null where Spark cannot tell."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    if _PAIRS.search(_plan_text(frame)):
        # Rows that are joined come from two files, and Spark refuses to choose.
        return frame.withColumn(FILE, fn.lit(None).cast("string"))
    # Rows without a file, such as those behind a shuffle, have an empty text.
    return frame.withColumn(FILE, fn.when(wanted, fn.nullif(fn.input_file_name(), fn.lit(""))))


def _plan_text(frame: Any) -> str:
    # There is no public way to ask whether rows are joined, and a plan that Spark refuses ends the counts of its rows.
    if is_connect(frame.sparkSession):
        return str(frame._explain_string(extended=True))  # noqa: SLF001 - see above
    return str(frame._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - see above


def _with_places(frame: DataFrame, step: StepRows, preparing: _Preparing, owner: NodeType | EdgeType) -> DataFrame:
    """Return the frame with the place of each row among those of its entity, by the order that the step gives.

    Rows that a rule takes out are counted among themselves, so that they never stand before a good one.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

    names: list[str] = []
    ends = {end.side: end.columns for end in preparing.ends}
    for column in owner.key or ("id",):
        given = {"src": "from", "dst": "to"}.get(column, column)
        if given in ends:
            names += ends[given]
        else:
            known = [name for name in (given, column) if name in frame.columns]
            names.append(preparing.mapped.get(given) or (known[0] if known else given))
    names += [f"{_OURS}rule{number}" for number, rule in enumerate(step.rules) if rule.outcome != "warn"]
    parts = ", ".join(f"`{name}`" for name in names)
    return frame.withColumn(_PLACE, fn.expr(f"row_number() OVER (PARTITION BY {parts} ORDER BY {step.dedupe})"))


def _is_same(expression: str, column: str) -> bool:
    return expression.strip().strip("`") == column
