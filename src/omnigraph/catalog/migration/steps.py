"""The steps a migration plan is made of: one frozen class per kind, each with its JSON and its line of text.

Beyond the eleven kinds of the schema language's planner there are five:

* ``make_nullable`` and ``make_required`` loosen and tighten a property; tightening has the code ``OG-MF-104``.
* ``widen_property`` gives numbers a type that holds every value of the old one.
* ``drop_constraint`` lifts a constraint, or lists one that leaves with a dropped property.
* ``change_cardinality`` gives ``@card`` other bounds, looser or tighter.

``validate`` in the JSON of a step says that rows must be looked at before the plan may be applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from omnigraph.catalog.identity import TypeKind
from omnigraph.catalog.migration.codes import TIGHTEN_TO_REQUIRED, StepCode, Tier
from omnigraph.catalog.migration.constraint import DeclaredConstraint
from omnigraph.catalog.model import AnnotationValue, CardinalityRule, PropertyType
from omnigraph.lang.parsing import quote_string
from omnigraph.records import record
from omnigraph.values.names import enum_word


def annotations_json(annotations: Iterable[AnnotationValue]) -> list[dict[str, Any]]:
    """Return the annotations as JSON values; ``keywords`` is left out where there are none."""
    return [
        {
            "name": annotation.name,
            "value": annotation.value,
            **({"keywords": dict(annotation.keywords)} if annotation.keywords else {}),
        }
        for annotation in annotations
    ]


def annotations_text(annotations: Iterable[AnnotationValue]) -> str:
    """Return the annotations as a schema would hold them, or ``none``.

    >>> annotations_text([AnnotationValue(name="deprecated"), AnnotationValue(name="owner", value="ann")])
    '@deprecated @owner("ann")'
    """
    return " ".join(_text(annotation) for annotation in annotations) or "none"


def _text(annotation: AnnotationValue) -> str:
    if annotation.value is None:
        return f"@{annotation.name}"
    keywords = [f"{name}={quote_string(value)}" for name, value in annotation.keywords]
    return f"@{annotation.name}({', '.join([quote_string(annotation.value), *keywords])})"


DropMode = Literal["soft", "hard"]


class _SafeStep:
    """A step that no row can stand in the way of and that loses none."""

    __slots__ = ()
    code: ClassVar[StepCode | None] = None
    tier: ClassVar[Tier | None] = Tier.SAFE


@record
class AddType(_SafeStep):
    """Create an empty table; for an interface, metadata only."""

    kind: ClassVar = "add_type"

    type_kind: TypeKind
    name: str

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {"kind": self.kind, "type_kind": self.type_kind, "name": self.name}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"add {self.type_kind} type {self.name}"


@record
class RenameType(_SafeStep):
    """Give a type another name; its table, data and history stay."""

    kind: ClassVar = "rename_type"

    type_kind: TypeKind
    old_name: str
    new_name: str

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {"kind": self.kind, "type_kind": self.type_kind, "from": self.old_name, "to": self.new_name}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"rename {self.type_kind} type {self.old_name} to {self.new_name}"


@record
class AddProperty(_SafeStep):
    """Add a property; existing rows hold null in it, or ``default`` if it is required."""

    kind: ClassVar = "add_property"

    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: PropertyType
    default: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {**_property_json(self), "property_type": self.property_type.to_json(), **_default_json(self.default)}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"add property {self.type_name}.{self.property_name}: {self.property_type}{_filled(self.default)}"


@record
class RenameProperty(_SafeStep):
    """Give a property another name; values and entity ids stay, also if it is part of the key."""

    kind: ClassVar = "rename_property"

    type_kind: TypeKind
    type_name: str
    old_name: str
    new_name: str

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        owner = {"kind": self.kind, "type_kind": self.type_kind, "type_name": self.type_name}
        return {**owner, "from": self.old_name, "to": self.new_name}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"rename property {self.type_name}.{self.old_name} to {self.new_name}"


@record
class MakeNullable(_SafeStep):
    """Let a required property be absent; no row has to change."""

    kind: ClassVar = "make_nullable"

    type_kind: TypeKind
    type_name: str
    property_name: str

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return _property_json(self)

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"make property {self.type_name}.{self.property_name} nullable"


@record
class MakeRequired:
    """Demand a value of a property that could be absent: every row has one, or gets ``default``."""

    kind: ClassVar = "make_required"

    type_kind: TypeKind
    type_name: str
    property_name: str
    default: str | None = None

    @property
    def code(self) -> StepCode | None:
        """Its code, if a row could stand in the way."""
        return TIGHTEN_TO_REQUIRED if self.default is None else None

    @property
    def tier(self) -> Tier | None:
        """Whether the rows have to be looked at."""
        return Tier.SAFE if self.code is None else self.code.tier

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        if self.default is not None:
            return {**_property_json(self), **_default_json(self.default)}
        return {**_property_json(self), "validate": True, "code": TIGHTEN_TO_REQUIRED.code}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"make property {self.type_name}.{self.property_name} required{_filled(self.default)}{_mark(self)}"


@record
class WidenProperty(_SafeStep):
    """Store numbers in a wider type; every value stays what it is, and so do entity ids."""

    kind: ClassVar = "widen_property"

    type_kind: TypeKind
    type_name: str
    property_name: str
    old_type: PropertyType
    new_type: PropertyType

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {**_property_json(self), "from": self.old_type.to_json(), "to": self.new_type.to_json()}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"widen property {self.type_name}.{self.property_name} from {self.old_type} to {self.new_type}"


@record
class ExtendEnum(_SafeStep):
    """Allow more values; ``added_values`` is sorted."""

    kind: ClassVar = "extend_enum"

    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {**_property_json(self), "added_values": list(self.added_values)}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"extend enum {self.type_name}.{self.property_name} with {', '.join(map(enum_word, self.added_values))}"


@record
class AddConstraint:
    """Add a constraint; ``validate`` if existing rows could contradict it. An index is built later."""

    kind: ClassVar = "add_constraint"
    code: ClassVar[StepCode | None] = None

    type_kind: TypeKind
    type_name: str
    constraint: DeclaredConstraint
    validate: bool = False

    @property
    def tier(self) -> Tier | None:
        """Whether the rows have to be looked at."""
        return Tier.VALIDATED if self.validate else Tier.SAFE

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {**_constraint_json(self), **({"validate": True} if self.validate else {})}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"add constraint {self.constraint} to {self.type_name}{_mark(self)}"


@record
class DropConstraint(_SafeStep):
    """Lift a constraint; no row has to change. What was built for an index stays, and is not extended."""

    kind: ClassVar = "drop_constraint"

    type_kind: TypeKind
    type_name: str
    constraint: DeclaredConstraint

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return _constraint_json(self)

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"drop constraint {self.constraint} of {self.type_name}"


@record
class ChangeCardinality:
    """Let a source node have more or fewer edges; ``validate`` if the new bounds leave out what the old ones allow."""

    kind: ClassVar = "change_cardinality"
    code: ClassVar[StepCode | None] = None

    type_kind: TypeKind
    type_name: str
    old_rule: CardinalityRule
    new_rule: CardinalityRule

    @property
    def validate(self) -> bool:
        """Whether existing edges could be too many or too few."""
        return not self.new_rule.includes(self.old_rule)

    @property
    def tier(self) -> Tier | None:
        """Whether the edges have to be looked at."""
        return Tier.VALIDATED if self.validate else Tier.SAFE

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        owner = {"kind": self.kind, "type_kind": self.type_kind, "type_name": self.type_name}
        bounds = {"from": str(self.old_rule), "to": str(self.new_rule)}
        return {**owner, **bounds, **({"validate": True} if self.validate else {})}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"change cardinality of {self.type_name} from {self.old_rule} to {self.new_rule}{_mark(self)}"


@record
class UpdateTypeMetadata(_SafeStep):
    """Replace the annotations of a type; ``annotations`` is the whole list that holds afterwards."""

    kind: ClassVar = "update_type_metadata"

    type_kind: TypeKind
    name: str
    annotations: tuple[AnnotationValue, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        names = {"kind": self.kind, "type_kind": self.type_kind, "name": self.name}
        return {**names, "annotations": annotations_json(self.annotations)}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"set annotations of {self.type_kind} type {self.name}: {annotations_text(self.annotations)}"


@record
class UpdatePropertyMetadata(_SafeStep):
    """Replace the annotations of a property; ``annotations`` is the whole list that holds afterwards."""

    kind: ClassVar = "update_property_metadata"

    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: tuple[AnnotationValue, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {**_property_json(self), "annotations": annotations_json(self.annotations)}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return (
            f"set annotations of property {self.type_name}.{self.property_name}: {annotations_text(self.annotations)}"
        )


@record
class DropType:
    """Take a type out of the graph; ``hard`` also reclaims what earlier versions hold."""

    kind: ClassVar = "drop_type"

    type_kind: TypeKind
    name: str
    mode: DropMode
    code: StepCode

    @property
    def tier(self) -> Tier | None:
        """The tier of its code."""
        return self.code.tier

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        names = {"kind": self.kind, "type_kind": self.type_kind, "name": self.name}
        return {**names, "mode": self.mode, **_code_json(self.code)}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"drop {self.type_kind} type {self.name} ({self.mode}){_mark(self)}"


@record
class DropProperty:
    """Take a property out of a type. An interface holds no rows, so its own drop has no code."""

    kind: ClassVar = "drop_property"

    type_kind: TypeKind
    type_name: str
    property_name: str
    mode: DropMode
    code: StepCode | None

    @property
    def tier(self) -> Tier | None:
        """The tier of its code."""
        return Tier.SAFE if self.code is None else self.code.tier

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {**_property_json(self), "mode": self.mode, **_code_json(self.code)}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"drop property {self.type_name}.{self.property_name} ({self.mode}){_mark(self)}"


@record
class UnsupportedChange:
    """A change that cannot be applied; one of them blocks the whole plan.

    ``entity`` is ``node:T``, ``edge:E``, ``interface:I``, one of these with ``.property``, or ``schema``.
    """

    kind: ClassVar = "unsupported_change"

    entity: str
    reason: str
    code: StepCode | None = None

    @property
    def tier(self) -> Tier | None:
        """The tier of its code; a refusal without code has none."""
        return None if self.code is None else self.code.tier

    @property
    def message(self) -> str:
        """What applying the plan fails with: the code in brackets, if there is one, and the reason."""
        return self.reason if self.code is None else f"[{self.code}] {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {"kind": self.kind, "entity": self.entity, "reason": self.reason, **_code_json(self.code)}

    def describe(self) -> str:
        """Return the step as a line of text."""
        return f"unsupported change on {self.entity}: {self.reason}{_mark(self)}"


Step = (
    AddType
    | RenameType
    | AddProperty
    | RenameProperty
    | MakeNullable
    | MakeRequired
    | WidenProperty
    | ExtendEnum
    | AddConstraint
    | DropConstraint
    | ChangeCardinality
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | DropType
    | DropProperty
    | UnsupportedChange
)


def _property_json(
    step: AddProperty
    | MakeNullable
    | MakeRequired
    | WidenProperty
    | ExtendEnum
    | UpdatePropertyMetadata
    | DropProperty,
) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "type_kind": step.type_kind,
        "type_name": step.type_name,
        "property_name": step.property_name,
    }


def _constraint_json(step: AddConstraint | DropConstraint) -> dict[str, Any]:
    owner = {"kind": step.kind, "type_kind": step.type_kind, "type_name": step.type_name}
    return {**owner, "constraint": step.constraint.to_json()}


def _default_json(default: str | None) -> dict[str, Any]:
    return {} if default is None else {"default": default}


def _filled(default: str | None) -> str:
    return "" if default is None else f", {quote_string(default)} where rows have no value"


def _code_json(code: StepCode | None) -> dict[str, Any]:
    return {} if code is None else {"code": code.code}


def _mark(step: Step) -> str:
    if step.code is not None:
        return f" [{step.code}, {step.code.tier.value}]"
    return f" [{step.tier.value}]" if step.tier is Tier.VALIDATED else ""
