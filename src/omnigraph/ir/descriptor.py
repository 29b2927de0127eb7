"""The operation descriptor: what a query returns, reads and writes, for catalogues and policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, assert_never

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.ir.check.tree import (
    CheckedBinding,
    CheckedClause,
    CheckedCondition,
    CheckedDelete,
    CheckedDeleteMatched,
    CheckedEach,
    CheckedFilter,
    CheckedInsert,
    CheckedMatchStatement,
    CheckedMutation,
    CheckedNegation,
    CheckedOptional,
    CheckedProjection,
    CheckedQuery,
    CheckedRead,
    CheckedStage,
    CheckedStatement,
    CheckedText,
    CheckedTraversal,
    CheckedUpdate,
    CheckedUpdateMatched,
    Operand,
)
from omnigraph.ir.lower.query import concrete_types, incident_edges
from omnigraph.ir.model import EntityKind
from omnigraph.ir.types import TEXT
from omnigraph.lang.gq import ast
from omnigraph.records import record

Kind = Literal[
    "string", "bool", "int", "bigint", "float", "decimal", "date", "datetime", "blob", "vector", "list", "object"
]

_KINDS: dict[Scalar, Kind] = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DECIMAL: "decimal",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.VECTOR: "vector",
}


def kind_fields(of: PropertyType) -> dict[str, Kind | int]:
    """Return ``kind`` with ``item_kind`` for a list, ``vector_dim`` for a vector, and the digits of decimals.

    >>> kind_fields(PropertyType(scalar=Scalar.I64, is_list=True))
    {'kind': 'list', 'item_kind': 'bigint'}
    """
    digits: dict[str, Kind | int] = {"precision": of.digits[0], "scale": of.digits[1]} if of.is_decimal else {}
    if of.is_list:
        return {"kind": "list", "item_kind": _KINDS[of.scalar], **digits}
    if of.is_vector:
        return {"kind": "vector", "vector_dim": of.dimension or 0}
    return {"kind": _KINDS[of.scalar], **digits}


@record(order=True)
class TypeUse:
    """A type that an operation touches."""

    is_edge: bool
    type_name: str

    def to_json(self) -> dict[str, str]:
        """Return the use as JSON values."""
        kind: EntityKind = "edge" if self.is_edge else "node"
        return {"kind": kind, "type_name": self.type_name}


@record
class ResultColumn:
    """A projected column; a bare node is described as an object although the row carries its id."""

    name: str
    kind: Kind
    nullable: bool
    item_kind: Kind | None = None
    vector_dim: int | None = None
    precision: int | None = None
    scale: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values, inapplicable members left out."""
        fields: dict[str, Any] = {"name": self.name, "kind": self.kind, "nullable": self.nullable}
        optional = {
            "item_kind": self.item_kind,
            "vector_dim": self.vector_dim,
            "precision": self.precision,
            "scale": self.scale,
        }
        return fields | {name: value for name, value in optional.items() if value is not None}


@record
class OperationDescriptor:
    """Result columns, and the types read and written: nodes before edges, then by name."""

    result: tuple[ResultColumn, ...]
    reads: tuple[TypeUse, ...]
    writes: tuple[TypeUse, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the descriptor as JSON values."""
        return {
            "result": [column.to_json() for column in self.result],
            "reads": [use.to_json() for use in self.reads],
            "writes": [use.to_json() for use in self.writes],
        }


def describe_operation(checked: CheckedQuery) -> OperationDescriptor:
    """Describe a query that fits its schema."""
    if isinstance(checked, CheckedRead):
        columns = tuple(_describe_column(projection) for projection in checked.last.projections)
        stages = [*checked.stages, *(stage for union in checked.unions for stage in union.stages)]
        uses = (use for stage in stages for use in _stage_uses(stage))
        return OperationDescriptor(result=columns, reads=_sorted(uses), writes=())
    return _describe_mutation(checked)


def _describe_column(projection: CheckedProjection) -> ResultColumn:
    operand = projection.operand
    of = operand.type or TEXT
    if _is_object(operand):
        return ResultColumn(name=projection.label, kind="object", nullable=of.nullable)
    fields: dict[str, Any] = dict(kind_fields(of))
    return ResultColumn(name=projection.label, nullable=of.nullable, **fields)


def _is_object(operand: Operand) -> bool:
    call = operand.expression
    if isinstance(call, ast.Aggregate) and call.function in {"min", "max"}:
        return bool(operand.parts) and operand.parts[0].is_node
    return operand.is_node


def _stage_uses(stage: CheckedStage) -> Iterator[TypeUse]:
    yield from _clause_uses(stage.clauses)
    operands = [*(item.operand for item in stage.projections), *(item.operand for item in stage.orderings), *stage.per]
    for operand in (*operands, *(() if stage.having is None else (stage.having,))):
        yield from _operand_uses(operand)


def _operand_uses(operand: Operand) -> Iterator[TypeUse]:
    """Yield the types that the blocks of an expression look at."""
    if operand.block is not None:
        yield from _clause_uses(operand.block.clauses)
    for part in (*operand.parts, operand.where):
        if part is not None:
            yield from _operand_uses(part)


def _clause_uses(clauses: Iterable[CheckedClause]) -> Iterator[TypeUse]:
    for clause in clauses:
        match clause:
            case CheckedBinding():
                names = (clause.node.name,) if clause.interface is None else clause.types
                yield from (TypeUse(is_edge=False, type_name=name) for name in names)
                for condition in clause.conditions:
                    yield from _operand_uses(condition)
            case CheckedTraversal():
                yield from map(_use, clause.edges)
                yield from _ends(clause.edge)
                if clause.condition is not None:
                    yield from _operand_uses(clause.condition)
            case CheckedNegation() | CheckedOptional():
                yield from _clause_uses(clause.clauses)
            case CheckedCondition():
                yield from _operand_uses(clause.condition)
            case CheckedEach():
                yield from _operand_uses(clause.items)
            case CheckedFilter() | CheckedText():
                pass
            case _:
                assert_never(clause)


def _describe_mutation(checked: CheckedMutation) -> OperationDescriptor:
    reads: set[TypeUse] = set()
    writes: set[TypeUse] = set()
    for statement in checked.statements:
        written = set(_written(statement, checked.catalog))
        writes |= written
        reads |= written
        if isinstance(statement, CheckedInsert) and isinstance(statement.target, EdgeType):
            reads.update(_ends(statement.target))
        elif isinstance(statement, CheckedMatchStatement):
            reads.update(_clause_uses(statement.clauses))
        for operand in _asked(statement):
            reads.update(_operand_uses(operand))
    for projection in checked.projections:
        reads.update(_operand_uses(projection.operand))
    columns = tuple(_describe_column(projection) for projection in checked.projections)
    return OperationDescriptor(result=columns, reads=_sorted(reads), writes=_sorted(writes))


def _asked(statement: CheckedStatement) -> Iterator[Operand]:
    """Yield the expressions of a statement that may hold blocks."""
    if isinstance(statement, CheckedInsert | CheckedUpdate | CheckedUpdateMatched):
        yield from (assignment.value for assignment in statement.assignments)
    if isinstance(statement, CheckedUpdate | CheckedDelete) and isinstance(statement.predicate, Operand):
        yield statement.predicate


def _written(statement: CheckedStatement, catalog: Catalog) -> Iterator[TypeUse]:
    match statement:
        case CheckedInsert() | CheckedUpdate() | CheckedUpdateMatched():
            yield from map(_use, concrete_types(statement.target, catalog))
        case CheckedDelete(target=target):
            yield from _removed(target, catalog)
        case CheckedDeleteMatched(targets=targets):
            for target in targets.values():
                yield from _removed(target, catalog)
        case CheckedMatchStatement():
            pass
        case _:
            assert_never(statement)


def _removed(target: NodeType | EdgeType, catalog: Catalog) -> Iterator[TypeUse]:
    for concrete in concrete_types(target, catalog):
        yield _use(concrete)
        if isinstance(concrete, NodeType):
            for name in incident_edges(concrete, catalog):
                yield TypeUse(is_edge=True, type_name=name)


def _use(of: NodeType | EdgeType) -> TypeUse:
    return TypeUse(is_edge=isinstance(of, EdgeType), type_name=of.name)


def _ends(edge: EdgeType) -> tuple[TypeUse, TypeUse]:
    return (
        TypeUse(is_edge=False, type_name=edge.from_type),
        TypeUse(is_edge=False, type_name=edge.to_type),
    )


def _sorted(uses: Iterable[TypeUse]) -> tuple[TypeUse, ...]:
    return tuple(sorted(set(uses)))
