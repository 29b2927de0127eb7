"""What the tests of the counting S3 endpoint share."""

import pytest
from obstore.store import S3Store

from omnigraph.testing.s3 import OBSTORE_WITHOUT_RETRIES


@pytest.fixture
def endpoint(clean_s3_endpoint):
    return clean_s3_endpoint


@pytest.fixture
def prefix(endpoint):
    """A directory of the bucket, as keys begin."""
    return endpoint.fresh_prefix().removeprefix(f"s3://{endpoint.bucket}/")


@pytest.fixture
def store(endpoint):
    return S3Store(endpoint.bucket, config=endpoint.storage_options)


@pytest.fixture
def blunt_store(endpoint):
    """A store that sends each call once."""
    return S3Store(endpoint.bucket, config=endpoint.storage_options, retry_config=OBSTORE_WITHOUT_RETRIES)
