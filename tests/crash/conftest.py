import pytest

from tests.crash.checks import Twins
from tests.crash.dying import Places


@pytest.fixture(scope="session")
def twins(tmp_path_factory):
    return Twins(tmp_path_factory.mktemp("twins"))


@pytest.fixture(scope="session")
def places_of(tmp_path_factory, request):
    """Places by store; the endpoint is started only when somebody asks for S3."""

    def make(store):
        endpoint = request.getfixturevalue("s3_endpoint") if store == "s3" else None
        return Places(store, tmp_path_factory.mktemp(store), endpoint)

    return make
