"""What of the language runs on Spark: everything but searches, which need indexes that are held in one process."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.engine.query.steps import QueryPlan, Scan, Weigh, walk
from omnigraph.errors import BadValue, SparkUnsupportedError
from omnigraph.ir.model import Bm25Ranking, Expand, Filter, NearestRanking, Predicate, Ranking, RrfRanking, TextMatch


def check_lowerable(plan: QueryPlan) -> None:
    """Turn away what cannot be lowered.

    Raises:
        SparkUnsupportedError: names the construct.
    """
    found = next(_searches(plan), None)
    if found is not None:
        function, text = found
        details = BadValue(what="construct", value=function, expected="a read without text or vector search")
        raise SparkUnsupportedError(f"{function} does not run on spark: construct={text}", details=details)


def _searches(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    if plan.read.ranking is not None:
        yield _function(plan.read.ranking), str(plan.read.ranking)
    for step, _ in walk(plan.steps, plan.variables):
        predicates: tuple[Predicate, ...] = ()
        if isinstance(step, Filter):
            predicates = (step.predicate,)
        elif isinstance(step, Scan | Expand):
            predicates = step.filters
        elif isinstance(step, Weigh):
            predicates = step.expand.filters
        yield from ((item.function, str(item)) for item in predicates if isinstance(item, TextMatch))


def _function(ranking: Ranking) -> str:
    names: dict[type[Ranking], str] = {NearestRanking: "nearest", Bm25Ranking: "bm25", RrfRanking: "rrf"}
    return names[type(ranking)]
