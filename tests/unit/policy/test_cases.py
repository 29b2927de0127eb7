"""A test file asks a bundle questions; cases that are decided otherwise are told one by one."""

import pytest

from omnigraph.errors import PolicyFormatError
from omnigraph.policy.bundle import parse_bundle
from omnigraph.policy.cases import parse_cases, run_cases
from omnigraph.policy.policy import BundlePolicy

BUNDLE = b"""\
version: 1
groups: {g: [a]}
protected_branches: [main]
rules:
  - id: r
    allow: {actors: {group: g}, actions: [change], branch_scope: unprotected}
"""
CASES = """\
version: 1
cases:
  - {id: draft, actor: a, action: change, branch: draft, expect: allow}
  - {id: main, actor: a, action: change, branch: ' main ', expect: deny}
  - {id: stranger, actor: x, action: change, branch: draft, expect: deny}
"""


def failures(text: str) -> list[str]:
    policy = BundlePolicy(parse_bundle(BUNDLE, "p"))
    return [str(failed) for failed in run_cases(policy, parse_cases(text.encode(), "t"))]


def test_cases_that_hold_are_silent():
    assert failures(CASES) == []


def test_cases_that_fail_are_told_with_the_reason():
    assert failures(CASES.replace("main ', expect: deny", "main ', expect: allow")) == [
        "main: expected allow, got deny: policy denied action 'change' on branch 'main' for actor 'a'"
    ]
    assert failures(CASES.replace("draft, expect: allow", "draft, expect: deny")) == [
        "draft: expected deny, got allow: policy allowed action 'change' on branch 'draft' for actor 'a' by rule 'r'"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cases: []", "version is missing"),
        ("version: 1", "there are no cases"),
        ("version: 1\ncases: []", "there are no cases"),
        (CASES + "x: 1", "unknown key 'x'"),
        (CASES.replace("id: main", "id: draft"), "case 'draft' occurs twice"),
        (CASES.replace("id: main,", ""), "a case has no id"),
        (CASES.replace("actor: x", "actor: ' '"), "a case has no actor"),
        (CASES.replace("action: change, branch: draft, expect: allow", "expect: allow"), "case 'draft' has no action"),
        (CASES.replace(", expect: allow", ""), "case 'draft' has no expect"),
        (CASES.replace("expect: allow", "expect: maybe"), "cases[0].expect is not one of allow, deny"),
        (CASES.replace("expect: allow", "expect: allow, branches: x"), "unknown key 'cases[0].branches'"),
    ],
)
def test_a_file_that_is_not_clear_is_refused(text: str, message: str):
    with pytest.raises(PolicyFormatError, match=r"\w") as caught:
        parse_cases(text.encode(), "t")
    assert caught.value.message == message
