"""The rules about sets of rows, asked about changes that other processes have written."""

from omnigraph.spark.rules.change import ChangeKeys, RuleSettings, TypeKeys
from omnigraph.spark.rules.run import check_change, judge_here
from omnigraph.spark.rules.verdict import Question, Superseded, Verdict

__all__ = [
    "ChangeKeys",
    "Question",
    "RuleSettings",
    "Superseded",
    "TypeKeys",
    "Verdict",
    "check_change",
    "judge_here",
]
