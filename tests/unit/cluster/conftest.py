"""A storage root for clusters on both stores."""

import pytest
from tests.marks import STORES

from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.ledger.place import ClusterPlace


@pytest.fixture
def local_place(tmp_path):
    return ClusterPlace(str(tmp_path / "root"))


@pytest.fixture
def s3_place(clean_s3_endpoint):
    return ClusterPlace(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options_without_retries)


@pytest.fixture(params=STORES)
def place(request):
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture
def findings():
    return Findings()
