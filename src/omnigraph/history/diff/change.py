"""Changes of entities as data, and the filters that choose among them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from omnigraph.errors import BadValue, UsageError
from omnigraph.history.diff.images import Image
from omnigraph.records import record
from omnigraph.values import checked_names, meant

EntityKind = Literal["node", "edge"]
ChangeOp = Literal["insert", "update", "delete"]

# The order in which operations on one id would stand.
OP_RANKS: Mapping[ChangeOp, int] = {"insert": 0, "update": 1, "delete": 2}
_SEPARATOR = b"\x1f"


@record
class TypeRef:
    """A type: an opaque id that renames keep and a drop ends, and the name it has at that moment."""

    id: str
    name: str

    @classmethod
    def of(cls, graph_id: str, object_id: str, name: str) -> TypeRef:
        """Return the reference to a declaration of a graph, known by what identifies its table."""
        stable, _, incarnation = object_id.partition("-")
        digest = hashlib.sha256(_SEPARATOR.join(part.encode() for part in (graph_id, stable, incarnation))).digest()
        return cls(id=base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), name=name)

    def to_json(self) -> dict[str, Any]:
        """Return the reference as JSON values."""
        return {"id": self.id, "name": self.name}


@record
class EntityChange:
    """One entity that differs between two states.

    Args:
        kind: node or edge.
        type: its type.
        id: its id.
        op: what happened, told by the two states alone.
        before: the entity as it was; None for an insert.
        after: the entity as it is; None for a delete.
        changed: the properties of an update that differ, ends as ``from`` and ``to``.
    """

    kind: EntityKind
    type: TypeRef
    id: str
    op: ChangeOp
    before: Image | None = None
    after: Image | None = None
    changed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        images = {
            name: image.to_json()
            for name, image in (("before", self.before), ("after", self.after))
            if image is not None
        }
        return {"kind": self.kind, "type": self.type.to_json(), "id": self.id, "op": self.op, **images}


@record
class ChangeFilter:
    """Which changes are wanted; an empty dimension wants all."""

    kinds: frozenset[EntityKind] = frozenset()
    type_names: frozenset[str] = frozenset()
    ops: frozenset[ChangeOp] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        *,
        kinds: Iterable[str] = (),
        type_names: Iterable[str] = (),
        ops: Iterable[str] = (),
        ids: Iterable[str] = (),
    ) -> ChangeFilter:
        """Return the filter for words as a request brings them.

        Raises:
            UsageError: a kind or an operation is none, or a dimension is not several names.
        """
        return cls(
            kinds=frozenset(_known(checked_names("kinds", kinds), "kind", get_args(EntityKind))),
            type_names=frozenset(checked_names("types", type_names)),
            ops=frozenset(_known(checked_names("ops", ops), "op", get_args(ChangeOp))),
            ids=frozenset(checked_names("ids", ids)),
        )

    def wants_type(self, kind: EntityKind, name: str) -> bool:
        """Whether entities of this type can pass."""
        return (not self.kinds or kind in self.kinds) and (not self.type_names or name in self.type_names)

    def wants_op(self, op: ChangeOp) -> bool:
        """Whether changes by this operation can pass."""
        return not self.ops or op in self.ops

    @property
    def digest(self) -> str:
        """The same text for every way of asking for the same changes."""
        dimensions = {
            "kinds": _canonical(self.kinds, len(get_args(EntityKind))),
            "type_names": _canonical(self.type_names, None),
            "ops": _canonical(self.ops, len(get_args(ChangeOp))),
            "ids": _canonical(self.ids, None),
        }
        return hashlib.sha256(json.dumps(dimensions, sort_keys=True).encode()).hexdigest()


NO_FILTER = ChangeFilter()


def _known(words: Iterable[str], what: str, known: tuple[Any, ...]) -> Iterable[Any]:
    for word in words:
        if word not in known:
            details = BadValue(what=what, value=word, expected=" | ".join(known))
            raise UsageError(f"there is no such {what} {what}={word!r}", details=details, hint=meant(word, known))
        yield word


def _canonical(values: frozenset[Any], all_count: int | None) -> list[str]:
    return [] if len(values) == all_count else sorted(values)
