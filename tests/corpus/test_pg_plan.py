"""Runs the planner over the cases of ``pg-plan``.

A case has ``accepted`` and ``desired`` schemas. ``expect`` starts with ``supported`` or ``unsupported`` and lists
one step in JSON per line, where the reason of a refusal is a fragment of the real one; or it is ``error <code>``
with claims. ``options`` may say ``allow_data_loss``, or ``foreign_shape`` for an accepted catalog whose recorded
shape hash this version would not compute. ``diagnostics`` lists ``code entity``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.catalog.migration import PLAN_RULES, STEP_CODES, MigrationPlan, Step, plan_creation, plan_migration
from omnigraph.catalog.migration.codes import FRAGMENTS
from omnigraph.errors import DiagnosticError
from omnigraph.lang.pg import parse_schema
from tests.corpus.cases import Case, load_cases, read_expectation

CASES = load_cases(Path(__file__).parent / "pg-plan")
STEP_KINDS = {step.kind for step in Step.__args__}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan_is_the_expected_one(case):
    expect = case.sections["expect"]
    if expect.startswith("error"):
        _check_error(case)
        return
    verdict, *lines = expect.splitlines()
    plan = _plan(case)
    assert ("supported" if plan.is_supported else "unsupported") == verdict
    wanted = [json.loads(line) for line in lines]
    found = [step.to_json() for step in plan.steps]
    # A case writes the stable part of a reason; once it is found in the real one, the rest must be equal.
    for want, have in zip(wanted, found, strict=False):
        if "reason" in want and want["reason"] in have.get("reason", ""):
            want["reason"] = have["reason"]
    assert found == wanted
    diagnostics = [f"{remark.code} {remark.entity}" for remark in plan.diagnostics]
    assert diagnostics == case.sections.get("diagnostics", "").splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_applied_plan_leaves_nothing_to_plan(case):
    """Once the desired catalog is the accepted one, planning the same text again finds no step."""
    if case.sections["expect"].startswith("error"):
        return
    plan = _plan(case)
    without_hints = plan_migration(plan.catalog, parse_schema(_strip_hints(case.sections["desired"])))
    assert without_hints.steps == ()
    assert without_hints.catalog == plan.catalog


def test_every_step_kind_is_planned_in_some_case_and_absent_from_another():
    planned = [{step["kind"] for step in _expected_steps(case)} for case in CASES]
    assert _uncovered(STEP_KINDS, planned) == []


def test_every_emitted_code_stands_in_some_case_and_is_absent_from_another():
    planned = [{step["code"] for step in _expected_steps(case) if "code" in step} for case in CASES]
    emitted = {code.code for code in STEP_CODES.values() if code.emitted}
    assert _uncovered(emitted, planned) == []
    reserved = {code.code for code in STEP_CODES.values() if not code.emitted}
    assert [codes & reserved for codes in planned if codes & reserved] == []


def test_every_reason_stands_in_some_case_and_is_absent_from_another():
    planned = [
        {fragment for fragment in FRAGMENTS for step in _expected_steps(case) if fragment in step.get("reason", "")}
        for case in CASES
    ]
    assert _uncovered(FRAGMENTS, planned) == []


def test_every_plan_error_is_raised_in_some_case_and_not_in_another():
    raised = [
        set(read_expectation(case.sections["expect"]).all("rule"))
        if case.sections["expect"].startswith("error")
        else set()
        for case in CASES
    ]
    assert _uncovered(PLAN_RULES, raised) == []


def _check_error(case: Case) -> None:
    expected = read_expectation(case.sections["expect"])
    with pytest.raises(DiagnosticError) as caught:
        _plan(case)
    error = caught.value
    assert f"error {error.code}" == expected.verdict
    assert error.details.place is not None
    for rule in expected.all("rule"):
        assert error.details.rule == rule
    for fragment in expected.all("contains"):
        assert fragment in str(error)
    for place in expected.all("at"):
        assert f"{error.details.place.line}:{error.details.place.column}" == place


def _plan(case: Case) -> MigrationPlan:
    options = case.sections.get("options", "").split()
    accepted = plan_creation(parse_schema(case.sections["accepted"]), "01ARZ3NDEKTSV4RRFFQ69G5FAV").catalog
    if "foreign_shape" in options:
        accepted = replace(accepted, shape_hash="sha256:0")
    desired = parse_schema(case.sections["desired"])
    return plan_migration(accepted, desired, allow_data_loss="allow_data_loss" in options)


def _strip_hints(text: str) -> str:
    parts = text.split("@rename_from(")
    return parts[0] + "".join(part.partition(")")[2] for part in parts[1:])


def _expected_steps(case: Case) -> list[dict[str, str]]:
    expect = case.sections["expect"]
    return [] if expect.startswith("error") else [json.loads(line) for line in expect.splitlines()[1:]]


def _uncovered(wanted, per_case: list[set[str]]) -> list[str]:
    return sorted(
        one for one in wanted if all(one in found for found in per_case) or not any(one in found for found in per_case)
    )
