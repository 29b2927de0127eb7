"""The one constraint evaluator: every write surface asks it, on every state it is about to be published on."""

from omnigraph.engine.constraints.evaluator import check_change, find_miscounted, find_violations

__all__ = ["check_change", "find_miscounted", "find_violations"]
