"""The counting S3 endpoint as fixtures; it starts with the first test that asks for it."""

import pytest

from omnigraph.testing.s3 import S3Endpoint


@pytest.fixture(scope="session")
def s3_endpoint():
    """One endpoint for the whole session; whoever sets latency, a cap or faults on it must take them back."""
    with S3Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def clean_s3_endpoint(s3_endpoint):
    """The same endpoint without calls, faults, latency or cap, and left like that whatever the test did."""
    s3_endpoint.restore_defaults()
    yield s3_endpoint
    s3_endpoint.restore_defaults()
