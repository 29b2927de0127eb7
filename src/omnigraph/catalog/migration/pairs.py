"""A type before and after, with the names that tie the two together: what every comparison starts from."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog.identity import TypeKind
from omnigraph.catalog.migration.kinds import AnyType
from omnigraph.catalog.migration.steps import DropMode
from omnigraph.catalog.model import PropertyDef
from omnigraph.records import record


@record
class TypePair:
    """An accepted type and the desired one that continues it.

    ``property_names`` maps accepted names to desired ones for the properties that stay; ``node_names`` does so for
    node types, which endpoints refer to; ``interface_properties`` maps accepted ``Interface.property`` to desired.
    """

    kind: TypeKind
    accepted: AnyType
    desired: AnyType
    property_names: Mapping[str, str]
    node_names: Mapping[str, str]
    interface_properties: Mapping[str, str]
    drop_mode: DropMode

    @property
    def entity(self) -> str:
        """The desired type as plans name it."""
        return f"{self.kind}:{self.desired.name}"

    def continued(self) -> dict[str, PropertyDef]:
        """Return the accepted properties that stay, by their desired names."""
        return {
            self.property_names[prop.name]: prop
            for prop in self.accepted.properties
            if prop.name in self.property_names
        }

    def dropped(self) -> list[PropertyDef]:
        """Return the accepted properties that no desired one continues, by name."""
        gone = (prop for prop in self.accepted.properties if prop.name not in self.property_names)
        return sorted(gone, key=lambda prop: prop.name)

    def added(self) -> dict[str, PropertyDef]:
        """Return the desired properties that continue no accepted one, by name."""
        kept = set(self.property_names.values())
        return {prop.name: prop for prop in self.desired.properties if prop.name not in kept}
