"""Test files of policies: questions with the answers that are expected."""

from __future__ import annotations

from omnigraph.errors import PolicyFormatError
from omnigraph.lang.document import Section, parse_document
from omnigraph.policy.bundle import check_version
from omnigraph.policy.decision import Action, Actor, Decision, Question
from omnigraph.policy.policy import Policy
from omnigraph.records import record

_EXPECTATIONS = ("allow", "deny")


@record
class PolicyCase:
    """A question, and whether it is expected to be allowed."""

    id: str
    actor: Actor
    question: Question
    is_allowed: bool


@record
class FailedCase:
    """A case that was decided otherwise than expected."""

    case: PolicyCase
    decision: Decision

    def __str__(self) -> str:
        expected, found = ("allow", "deny") if self.case.is_allowed else ("deny", "allow")
        return f"{self.case.id}: expected {expected}, got {found}: {self.decision.message}"


def parse_cases(data: bytes, name: str) -> tuple[PolicyCase, ...]:
    """Read a file of tests.

    Raises:
        PolicyFormatError: it is not a valid file; the error says where.
        SourceEncodingError, SourceTooLargeError: it is not text, or too much of it.
    """
    document = parse_document(data, name, error=PolicyFormatError, subject="the file of tests")
    root = Section(document, document.root)
    check_version(root)
    cases: dict[str, PolicyCase] = {}
    for section in root.items("cases"):
        case = _case(section)
        if case.id in cases:
            raise section.problem(f"case '{case.id}' occurs twice", "id", expected="a unique id")
        cases[case.id] = case
    if not cases:
        raise root.problem("there are no cases", "cases", expected="a list of cases")
    root.refuse_unknown()
    return tuple(cases.values())


def run_cases(policy: Policy, cases: tuple[PolicyCase, ...]) -> tuple[FailedCase, ...]:
    """Ask every question and return the cases that fail.

    Raises:
        PolicyEvaluationError: there is no decision.
    """
    asked = ((case, policy.decide(case.actor, case.question)) for case in cases)
    return tuple(
        FailedCase(case=case, decision=decision) for case, decision in asked if decision.allowed is not case.is_allowed
    )


def _case(section: Section) -> PolicyCase:
    case_id = _required(section, "id")
    actor = _required(section, "actor")
    action = section.choice("action", tuple(Action))
    expect = section.choice("expect", _EXPECTATIONS)
    branch, target = section.text("branch"), section.text("target_branch")
    if action is None or expect is None:
        missing = "action" if action is None else "expect"
        raise section.problem(f"case '{case_id}' has no {missing}", expected=missing)
    question = Question(
        action=Action(action), branch=branch and branch.strip(), target_branch=target and target.strip()
    )
    return PolicyCase(id=case_id, actor=Actor(name=actor), question=question, is_allowed=expect == "allow")


def _required(section: Section, key: str) -> str:
    found = section.text(key)
    if found is None or not found.strip():
        raise section.problem(f"a case has no {key}", key, expected=key)
    return found.strip()
