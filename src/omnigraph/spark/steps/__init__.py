"""The frames of pipelines: how their rows are read, judged, mapped to types and loaded as one commit."""

from omnigraph.spark.steps.job import load_steps
from omnigraph.spark.steps.model import StepResult, StepsOrder, StepsResult
from omnigraph.spark.steps.rejected import QuarantinePlace
from omnigraph.spark.steps.rows import EndNaming, RowRule, StepRows

__all__ = [
    "EndNaming",
    "QuarantinePlace",
    "RowRule",
    "StepResult",
    "StepRows",
    "StepsOrder",
    "StepsResult",
    "load_steps",
]
