"""Judging a change by its keys: in one task, or bucket by bucket when it is large."""

from __future__ import annotations

from omnigraph.errors import Violations
from omnigraph.records import record
from omnigraph.spark.rules.buckets import judge_in_buckets
from omnigraph.spark.rules.change import ChangeKeys, RuleSettings
from omnigraph.spark.rules.engine import DuckRules, WholeChange
from omnigraph.spark.rules.relations import RuleRelations
from omnigraph.spark.rules.verdict import NO_VIOLATIONS, Question, Verdict, ask_rules, look_at_ids, verdict_of
from omnigraph.spark.runner import Runner


@record
class _Task:
    change: ChangeKeys
    question: Question
    settings: RuleSettings


def check_change(
    change: ChangeKeys,
    runner: Runner,
    *,
    limit: int = 100,
    before: Violations = NO_VIOLATIONS,
    keeps_problems: bool = False,
    settings: RuleSettings | None = None,
) -> Verdict:
    """Return what the embedded path would say about a change; nothing of its rows comes to this process.

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
    question = Question(limit=limit, before=before, keeps_problems=keeps_problems, wants_superseded=True)
    count = -(-change.rows // settings.bucket_rows)
    if count > 1:
        return judge_in_buckets(change, runner, question, settings, count)
    task = _Task(change=change, question=question, settings=settings)
    (verdict,) = runner.run(_judge, [task], "check the rules about sets of rows")
    return verdict


def judge_here(change: ChangeKeys, question: Question | None = None, settings: RuleSettings | None = None) -> Verdict:
    """Return what the embedded path would say about a change, worked out in this process in one go."""
    question, settings = question or Question(), settings or RuleSettings()
    with DuckRules(change, WholeChange(change), settings.kernel) as engine:
        relations = RuleRelations(change=change, engine=engine)
        ids = look_at_ids(relations, question)
        return verdict_of(change, question, [ids], [] if ids.taken else [ask_rules(relations, question)])


def _judge(task: _Task) -> Verdict:
    return judge_here(task.change, task.question, task.settings)
