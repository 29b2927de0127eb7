"""Judging a change that other processes have written: in one of them, or by the joins of Spark."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import Violations
from omnigraph.records import record
from omnigraph.spark.rules.change import RuleSettings, WrittenChange
from omnigraph.spark.rules.engines import DuckRules, SparkRules
from omnigraph.spark.rules.relations import RuleRelations
from omnigraph.spark.rules.verdict import NO_VIOLATIONS, Question, Superseded, Verdict, find_superseded, judge
from omnigraph.spark.runner import Runner, SparkRunner

_DOING = "check the rules about sets of rows"
_PROBLEMS = "rules-problems"
_SUPERSEDED = "rules-superseded"


@record
class _Task:
    change: WrittenChange
    question: Question
    settings: RuleSettings


def check_written(
    change: WrittenChange,
    runner: Runner,
    *,
    limit: int = 100,
    before: Violations = NO_VIOLATIONS,
    keeps_problems: bool = False,
    settings: RuleSettings | None = None,
) -> Verdict:
    """Return what the embedded path would say about a change; nothing of its rows comes to this process.

    Up to some size the rules are judged inside one task, beyond it by joins of Spark.

    Args:
        change: what is written, and the state that it is made on.
        runner: where the work is done.
        limit: how many violations the error holds.
        before: violations of rows by themselves, which come first in the error.
        keeps_problems: write all problems but those of ``before`` to scratch, for :meth:`Verdict.every_problem`.
        settings: how the rules are asked.

    Raises:
        MemoryBudgetError: the change is too large to be checked within the settings.
        SparkJobError: the work failed for another reason than the change.
    """
    settings = settings or RuleSettings()
    question = Question(
        limit=limit, before=before, problems=_PROBLEMS if keeps_problems else None, superseded=_SUPERSEDED
    )
    if isinstance(runner, SparkRunner) and change.rows > settings.kernel_rows:
        with SparkRules(change, runner.spark, settings) as engine:
            return judge(change, engine, question)
    (verdict,) = runner.run(_judge, [_Task(change=change, question=question, settings=settings)], _DOING)
    return verdict


def judge_here(
    change: WrittenChange, question: Question | None = None, settings: RuleSettings | None = None
) -> Verdict:
    """Return what the embedded path would say about a change, worked out in this process."""
    settings = settings or RuleSettings()
    with DuckRules(change, settings.kernel) as engine:
        return judge(change, engine, question or Question())


def losers(change: WrittenChange, runner: Runner, *, settings: RuleSettings | None = None) -> Mapping[str, Superseded]:
    """Write down the rows that a later row of the same id replaces, per table that has any, and judge nothing.

    A clean :class:`Verdict` has them already.
    """
    settings = settings or RuleSettings()
    if isinstance(runner, SparkRunner) and change.rows > settings.kernel_rows:
        with SparkRules(change, runner.spark, settings) as engine:
            return find_superseded(RuleRelations(change=change, engine=engine), _SUPERSEDED)
    task = _Task(change=change, question=Question(), settings=settings)
    (found,) = runner.run(_find_superseded, [task], "find rows that later ones replace")
    return found


def _judge(task: _Task) -> Verdict:
    return judge_here(task.change, task.question, task.settings)


def _find_superseded(task: _Task) -> dict[str, Superseded]:
    with DuckRules(task.change, task.settings.kernel) as engine:
        return find_superseded(RuleRelations(change=task.change, engine=engine), _SUPERSEDED)
