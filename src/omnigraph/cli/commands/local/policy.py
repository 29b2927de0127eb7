"""``omnigraph policy``: checks, tests and explains policy bundles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import PurePath
from typing import Annotated, Any

import typer

from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.operator.scope import ClusterScope, bound_cluster, has_chosen_cluster
from omnigraph.cli.options import AsJson, Cluster, ClusterGraph, Profile, expand_options
from omnigraph.cli.output import choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.policy.bundle import SERVER_ACTIONS, BundleKind, parse_bundle
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
        "explain": Entry(
            app=f"{__name__}:explain_app", summary="Show the decision about an action, and the rule behind it."
        ),
    },
)

Bundle = Annotated[
    str | None,
    typer.Argument(
        metavar="BUNDLE",
        help="The file of the bundle; - reads standard input. Leave it out to use one that a cluster has applied.",
        show_default=False,
    ),
]
BundleName = Annotated[
    str | None,
    typer.Option("--bundle", metavar="NAME", help="The name of the bundle, if several bundles of the cluster match."),
]


@record
class BundleOptions:
    """Which bundle a command is about: a file, or one that a cluster has applied."""

    file: Bundle = None
    cluster: Cluster = None
    graph: ClusterGraph = None
    profile: Profile = None
    bundle: BundleName = None

    def load(self, action: Action | None = None) -> tuple[str, BundlePolicy]:
        """Return the bundle and what it is called; ``action`` tells those of graphs and of the cluster apart.

        Raises:
            UsageError: none is meant, or several.
            ClusterStateError: the cluster cannot tell it.
            PolicyFormatError, FileMissingError, FileAccessError: the file is no bundle, or cannot be read.
        """
        scope = bound_cluster() if self.file is None or has_chosen_cluster() else None
        if self.file is not None:
            if scope is not None:
                raise usage_error(
                    "a file and --cluster are mutually exclusive", value=self.file, expected="one of them"
                )
            read = read_input(self.file)
            return PurePath(self.file).stem, BundlePolicy(parse_bundle(read.data, read.name))
        if scope is None:
            raise usage_error("the bundle is missing", expected="BUNDLE or --cluster")
        return _of_cluster(scope, self.bundle, action)


def _of_cluster(scope: ClusterScope, name: str | None, action: Action | None) -> tuple[str, BundlePolicy]:
    from omnigraph.cluster.applied import AppliedCluster  # noqa: PLC0415 - for bundles of clusters

    cluster = AppliedCluster(scope.place)
    if scope.graph_id is not None:
        cluster.graph_uri(scope.graph_id)
    found = [one for one in cluster.policies(scope.graph_id) if name in {None, one.name}]
    if action is not None and len(found) > 1:
        # Whether it is about the cluster or about a graph says which bundle decides.
        found = [one for one in found if one.is_of_cluster is (action in SERVER_ACTIONS)]
    if len(found) != 1:
        known = ", ".join(one.name for one in found) or ", ".join(one.name for one in cluster.policies()) or "none"
        raise usage_error(
            "several bundles match" if found else "the cluster has no such bundle",
            what="bundle",
            value=name or known,
            expected="--graph ID or --bundle NAME",
            hint=f"name one with --graph or --bundle; the cluster has: {known}",
        )
    kind = BundleKind.SERVER if found[0].is_of_cluster else BundleKind.GRAPH
    resource = scope.graph_id or "graph"
    return found[0].name, BundlePolicy(parse_bundle(found[0].data, f"{found[0].name}.yaml", kind), resource)


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
@expand_options
def validate(
    *,
    source: BundleOptions,
    cedar: Annotated[bool, typer.Option("--cedar", help="Also print the compiled Cedar policies.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check a policy bundle: its form, its rules, and that it compiles."""
    name, policy = source.load()
    report = ValidReport(
        bundle=name,
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
@expand_options
def run_tests(
    *,
    source: BundleOptions,
    tests: Annotated[str, typer.Option("--tests", metavar="FILE", help="The cases; - reads standard input.")],
    as_json: AsJson = False,
) -> int:
    """Run the cases of a test file against a bundle; exits with code 1 if a decision is not the expected one."""
    refuse_second_stdin([one for one in (source.file, tests) if one is not None])
    _, policy = source.load()
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
@expand_options
def explain(
    *,
    source: BundleOptions,
    actor: Annotated[str, typer.Option("--actor", metavar="ACTOR", help="Who asks.")],
    action: Annotated[Action, typer.Option("--action", metavar="ACTION", help="The action to decide.")],
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch that the action reads or writes.")
    ] = None,
    target_branch: Annotated[
        str | None, typer.Option("--target-branch", metavar="NAME", help="The branch that the action changes.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group of the actor at its identity provider; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show the decision of a bundle about an action, and the rule that allows it."""
    on, target = (None if name is None else str(BranchName.parse(name)) for name in (branch, target_branch))
    question = Question(action=action, branch=on, target_branch=target)
    asking = Actor(name=actor.strip(), groups=frozenset(group or ()))
    decision = source.load(action)[1].decide(asking, question)
    choose_output(as_json=as_json).show(ExplainedReport(actor=asking.name, question=question, decision=decision))
    return 0
