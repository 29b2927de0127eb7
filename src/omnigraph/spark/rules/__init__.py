"""The rules about sets of rows, asked about changes that other processes have written."""

from omnigraph.spark.rules.change import RuleSettings, WrittenChange, WrittenType
from omnigraph.spark.rules.run import check_written, judge_here, losers
from omnigraph.spark.rules.verdict import Question, Superseded, Verdict

__all__ = [
    "Question",
    "RuleSettings",
    "Superseded",
    "Verdict",
    "WrittenChange",
    "WrittenType",
    "check_written",
    "judge_here",
    "losers",
]
