"""Changes to a type itself: its name, what it implements or connects, and its annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.catalog.migration import reasons
from omnigraph.catalog.migration.pairs import TypePair
from omnigraph.catalog.migration.steps import RenameType, Step, UnsupportedChange, UpdateTypeMetadata
from omnigraph.catalog.model import AnnotationValue, EdgeType, NodeType


def type_changes(pair: TypePair) -> Iterator[Step]:
    """Yield the steps about the head of a type, properties and constraints left out."""
    accepted, desired = pair.accepted, pair.desired
    if accepted.name != desired.name:
        yield RenameType(type_kind=pair.kind, old_name=accepted.name, new_name=desired.name)
    if isinstance(accepted, NodeType) and isinstance(desired, NodeType):
        yield from _implements_change(pair.entity, accepted, desired)
        yield from _annotation_change(pair, accepted.annotations, desired.annotations)
    if isinstance(accepted, EdgeType) and isinstance(desired, EdgeType):
        yield from _endpoint_change(pair, accepted, desired)
        yield from _cardinality_change(pair.entity, accepted, desired)
        yield from _annotation_change(pair, accepted.annotations, desired.annotations)


def same_annotations(left: Iterable[AnnotationValue], right: Iterable[AnnotationValue]) -> bool:
    """Tell whether two annotation lists say the same, in whatever order."""
    return set(left) == set(right)


def _implements_change(entity: str, accepted: NodeType, desired: NodeType) -> Iterator[Step]:
    before, after = sorted(set(accepted.implements)), sorted(set(desired.implements))
    if before != after:
        yield UnsupportedChange(
            entity=entity,
            reason=f"{reasons.IMPLEMENTED_INTERFACES} is not supported: from {_names(before)} to {_names(after)}",
        )


def _endpoint_change(pair: TypePair, accepted: EdgeType, desired: EdgeType) -> Iterator[Step]:
    before = tuple(pair.node_names.get(name, name) for name in (accepted.from_type, accepted.to_type))
    after = (desired.from_type, desired.to_type)
    if before != after:
        change = f"from {before[0]} -> {before[1]} to {after[0]} -> {after[1]}"
        yield UnsupportedChange(entity=pair.entity, reason=f"{reasons.EDGE_ENDPOINTS} is not supported: {change}")


def _cardinality_change(entity: str, accepted: EdgeType, desired: EdgeType) -> Iterator[Step]:
    if accepted.cardinality != desired.cardinality:
        change = f"from {accepted.cardinality} to {desired.cardinality}"
        yield UnsupportedChange(entity=entity, reason=f"{reasons.CARDINALITY} is not supported: {change}")


def _annotation_change(
    pair: TypePair,
    before: tuple[AnnotationValue, ...],
    after: tuple[AnnotationValue, ...],
) -> Iterator[Step]:
    if not same_annotations(before, after):
        yield UpdateTypeMetadata(type_kind=pair.kind, name=pair.desired.name, annotations=after)


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"
