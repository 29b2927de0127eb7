"""Everything the engine needs from outside itself, in one object that is handed down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.runtime.catalogue import FAILPOINTS
from omnigraph.runtime.clock import Clock, ManualClock, SystemClock
from omnigraph.runtime.failpoints import Failpoints
from omnigraph.runtime.ids import IdSource
from omnigraph.runtime.randomness import Randomness, SeededRandomness, SystemRandomness


@dataclass(frozen=True, kw_only=True)
class World:
    """Clock, randomness, ids and failpoints of one engine."""

    clock: Clock
    randomness: Randomness
    failpoints: Failpoints = field(default_factory=lambda: Failpoints(FAILPOINTS))
    ids: IdSource = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", IdSource(self.clock, self.randomness))

    @classmethod
    def system(cls, environment: Mapping[str, str] | None = None) -> World:
        """Return the real world; failpoints as the environment asks for them."""
        return cls(
            clock=SystemClock(),
            randomness=SystemRandomness(),
            failpoints=Failpoints.from_environment(FAILPOINTS, os.environ if environment is None else environment),
        )

    @classmethod
    def seeded(cls, seed: int) -> World:
        """Return a world that repeats itself exactly for the same seed."""
        return cls(clock=ManualClock(), randomness=SeededRandomness(seed))
