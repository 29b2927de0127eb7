"""``omnigraph policy``: checks, tests and explains policy bundles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import PurePath
from typing import Annotated, Any

import typer

from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output
from omnigraph.policy.bundle import parse_bundle
from omnigraph.policy.cases import FailedCase, parse_cases, run_cases
from omnigraph.policy.decision import Action, Actor, Decision, Question
from omnigraph.policy.policy import BundlePolicy
from omnigraph.records import record
from omnigraph.values import BranchName

app = new_group(
    "Check, test and explain policy bundles.",
    {
        "validate": Entry(app=f"{__name__}:validate_app", summary="Check a bundle."),
        "test": Entry(app=f"{__name__}:test_app", summary="Run the cases of a test file."),
        "explain": Entry(app=f"{__name__}:explain_app", summary="Show how a question is decided."),
    },
)

Bundle = Annotated[str, typer.Argument(metavar="BUNDLE", help="The file of the bundle; - reads standard input.")]


def _load(path: str) -> BundlePolicy:
    read = read_input(path)
    return BundlePolicy(parse_bundle(read.data, read.name))


validate_app = new_app()


@record
class ValidReport:
    """A bundle that is valid, and its Cedar text if that was asked for."""

    bundle: str
    kind: str
    actors: int
    rules: int
    cedar: str | None

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"valid": True, **asdict(self)}

    def to_lines(self) -> Iterable[str]:
        """One line, or the Cedar text."""
        if self.cedar is not None:
            return self.cedar.splitlines()
        return [f"policy valid: bundle '{self.bundle}' [{self.actors} actors]"]

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@validate_app.command()
def validate(
    *,
    bundle: Bundle,
    cedar: Annotated[bool, typer.Option("--cedar", help="Print the Cedar policies that it is compiled to.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check a policy bundle: its form, its rules, and that it compiles."""
    policy = _load(bundle)
    report = ValidReport(
        bundle=PurePath(bundle).stem,
        kind=policy.bundle.kind.value,
        actors=len(policy.bundle.actors),
        rules=len(policy.bundle.rules),
        cedar=policy.to_cedar() if cedar else None,
    )
    choose_output(as_json=as_json).show(report)
    return 0


test_app = new_app()


@record
class CasesReport:
    """What became of the cases of a test file."""

    cases: int
    failures: tuple[FailedCase, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        failures = [{"id": failed.case.id, "message": str(failed)} for failed in self.failures]
        return {"passed": not failures, "cases": self.cases, "failures": failures}

    def to_lines(self) -> Iterable[str]:
        """One line for all, or a line for each case that failed."""
        if not self.failures:
            yield f"policy tests passed: {self.cases} cases"
            return
        yield from (f"FAILED {failed}" for failed in self.failures)
        yield f"policy tests failed: {len(self.failures)} of {self.cases} cases"

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@test_app.command("test")
def run_tests(
    *,
    bundle: Bundle,
    tests: Annotated[str, typer.Option("--tests", metavar="FILE", help="The cases; - reads standard input.")],
    as_json: AsJson = False,
) -> int:
    """Ask a bundle the questions of a test file; exit 1 if one is decided otherwise than expected."""
    refuse_second_stdin([bundle, tests])
    policy = _load(bundle)
    read = read_input(tests)
    cases = parse_cases(read.data, read.name)
    report = CasesReport(cases=len(cases), failures=run_cases(policy, cases))
    choose_output(as_json=as_json).show(report)
    return 1 if report.failures else 0


explain_app = new_app()


@record
class ExplainedReport:
    """A question and its decision."""

    actor: str
    question: Question
    decision: Decision

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "decision": "allow" if self.decision.allowed else "deny",
            "actor": self.actor,
            "action": self.question.action.value,
            "branch": self.question.branch,
            "target_branch": self.question.target_branch,
            "matched_rule": self.decision.matched_rule_id,
            "message": self.decision.message,
        }

    def to_lines(self) -> Iterable[str]:
        """A line per member; a dash stands for nothing."""
        return [f"{name}: {'-' if value is None else value}" for name, value in self.to_json().items()]

    def to_remarks(self) -> Iterable[str]:
        """Nothing accompanies it."""
        return ()


@explain_app.command()
def explain(
    *,
    bundle: Bundle,
    actor: Annotated[str, typer.Option("--actor", metavar="ACTOR", help="Who asks.")],
    action: Annotated[Action, typer.Option("--action", metavar="ACTION", help="What they want to do.")],
    branch: Annotated[str | None, typer.Option("--branch", metavar="NAME", help="The branch it is about.")] = None,
    target_branch: Annotated[
        str | None, typer.Option("--target-branch", metavar="NAME", help="The branch it changes.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group that an identity provider names; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show how a bundle decides a question, and the rule that allows it."""
    on, target = (None if name is None else str(BranchName.parse(name)) for name in (branch, target_branch))
    question = Question(action=action, branch=on, target_branch=target)
    asking = Actor(name=actor.strip(), groups=frozenset(group or ()))
    decision = _load(bundle).decide(asking, question)
    choose_output(as_json=as_json).show(ExplainedReport(actor=asking.name, question=question, decision=decision))
    return 0
