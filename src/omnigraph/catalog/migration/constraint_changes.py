"""Changes to the constraints of a type that stays.

Only keys can never be added, and nothing that still has its columns can be removed: entity ids derive from keys,
and other readers may rely on what a constraint promised. A constraint that loses a column to a dropped property
goes with it. Whether a constraint was written on a property or in the body makes no difference; those over one
property are listed beside that property.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.catalog.migration import reasons
from omnigraph.catalog.migration.constraint import DeclaredConstraint, declared_constraints
from omnigraph.catalog.migration.pairs import TypePair
from omnigraph.catalog.migration.steps import AddConstraint, DropConstraint, Step, UnsupportedChange
from omnigraph.records import record


@record
class ConstraintChanges:
    """What two versions of a type declare differently, already under the desired names."""

    pair: TypePair
    removed: tuple[DeclaredConstraint, ...]
    added: tuple[DeclaredConstraint, ...]

    def of_property(self, name: str) -> Iterator[Step]:
        """Yield the steps about constraints over the one desired property ``name``."""
        for constraint in self.removed:
            if constraint.is_over_one_property and constraint.columns == (name,):
                yield _refuse_removal(f"{self.pair.entity}.{name}", constraint)
        for constraint in self.added:
            if constraint.is_over_one_property and constraint.columns == (name,):
                yield self._addition(constraint)

    def of_type(self) -> Iterator[Step]:
        """Yield the steps about every other constraint: removals first, then additions."""
        columns = {prop.name for prop in self.pair.desired.properties}
        dropped = {prop.name for prop in self.pair.dropped()}
        for constraint in self.removed:
            if constraint.kind != "Key" and not dropped.isdisjoint(constraint.columns):
                yield DropConstraint(type_kind=self.pair.kind, type_name=self.pair.desired.name, constraint=constraint)
            elif not _is_over_one_of(constraint, columns):
                yield _refuse_removal(self.pair.entity, constraint)
        for constraint in self.added:
            if not _is_over_one_of(constraint, columns):
                yield self._addition(constraint)

    def _addition(self, constraint: DeclaredConstraint) -> Step:
        if constraint.kind == "Key":
            return _refuse_key(self.pair.entity, constraint)
        # A row that holds null in a column is exempt, and every row does in a property that is being added.
        all_null = {name for name, prop in self.pair.added().items() if prop.type.nullable}
        has_rows = self.pair.kind != "interface"
        can_fail = has_rows and constraint.kind != "Index" and all_null.isdisjoint(constraint.columns)
        return AddConstraint(
            type_kind=self.pair.kind,
            type_name=self.pair.desired.name,
            constraint=constraint,
            validate=can_fail,
        )


def constraint_changes(pair: TypePair) -> ConstraintChanges:
    """Compare the constraints of both sides."""
    before = {constraint.renamed(pair.property_names) for constraint in declared_constraints(pair.accepted)}
    after = declared_constraints(pair.desired)
    return ConstraintChanges(
        pair=pair,
        removed=tuple(sorted(before - after, key=DeclaredConstraint.sort_key)),
        added=tuple(sorted(after - before, key=DeclaredConstraint.sort_key)),
    )


def _is_over_one_of(constraint: DeclaredConstraint, columns: set[str]) -> bool:
    return constraint.is_over_one_property and constraint.columns[0] in columns


def _refuse_removal(entity: str, constraint: DeclaredConstraint) -> UnsupportedChange:
    single = constraint.is_over_one_property
    what = reasons.REMOVING_PROPERTY_CONSTRAINTS if single else reasons.REMOVING_CONSTRAINTS
    return UnsupportedChange(entity=entity, reason=f"{what} is not supported: {constraint}")


def _refuse_key(entity: str, constraint: DeclaredConstraint) -> UnsupportedChange:
    if len(constraint.columns) == 1:
        entity = f"{entity}.{constraint.columns[0]}"
        what = f"{reasons.ADDING_PROPERTY_CONSTRAINT}key"
    else:
        what = f"{reasons.ADDING_CONSTRAINT} {constraint}"
    return UnsupportedChange(
        entity=entity, reason=f"{what} to an accepted type is not supported: entity ids derive from the key"
    )
