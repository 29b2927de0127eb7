"""The code tables of the planner and of lint: form, families, and no number used twice."""

from __future__ import annotations

import re

from omnigraph.catalog.lint import LINT_CODES
from omnigraph.catalog.migration import FAMILIES, STEP_CODES, Severity, Tier


def test_every_code_has_the_form_and_a_known_family():
    for code in [*STEP_CODES, *LINT_CODES]:
        matched = re.fullmatch(r"OG-([A-Z]{2})-[0-9]{3}", code)
        assert matched is not None
        assert matched[1] in FAMILIES


def test_steps_and_lint_share_no_code():
    assert STEP_CODES.keys().isdisjoint(LINT_CODES)


def test_every_code_says_what_it_means_in_its_own_words():
    meanings = [row.meaning for row in [*STEP_CODES.values(), *LINT_CODES.values()]]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


def test_only_the_drop_of_a_graph_type_is_reserved():
    assert [code.code for code in STEP_CODES.values() if not code.emitted] == ["OG-DS-101"]


def test_destructive_family_is_of_the_destructive_tier():
    assert {code.tier for code in STEP_CODES.values() if code.family == "DS"} == {Tier.DESTRUCTIVE}
    assert {code.severity for code in STEP_CODES.values()} == {Severity.ERROR}
