"""Declared pipelines: how tables of other systems become a graph and keep it current."""

from omnigraph.pipelines.declare import Pipeline, drop, fail, quarantine, warn
from omnigraph.pipelines.model import Declaration

__all__ = ["Declaration", "Pipeline", "drop", "fail", "quarantine", "warn"]
