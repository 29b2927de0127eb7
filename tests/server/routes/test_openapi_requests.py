"""Every request that the OpenAPI document allows, and those that it just does not allow, find no bug.

They are made when tests are collected, which takes longer than to collect all others: ``make test`` leaves the file
out, and sends a few random ones in ``test_openapi.py``.
"""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from tests.server.routes.test_openapi import answer_is_no_failure, described_schema, target  # noqa: F401 - a fixture

pytestmark = pytest.mark.more

described = described_schema()


@described.parametrize()
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case: schemathesis.Case, target: str):  # noqa: F811 - the fixture
    answer_is_no_failure(case, target)
