"""The one list of failpoint names: ``room.step.moment``, each with what has just happened there."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FAILPOINTS: Mapping[str, str] = MappingProxyType({})
