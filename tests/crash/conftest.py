import pytest

from tests.crash.checks import Twins
from tests.crash.dying import Places
from tests.crash.session_kinds import write_inputs


@pytest.fixture(scope="session")
def twins(places_of):
    return Twins(places_of)


@pytest.fixture(scope="session")
def places_of(tmp_path_factory, request):
    """Places by store; the endpoint is started only when somebody asks for S3."""

    def make(store):
        endpoint = request.getfixturevalue("s3_endpoint") if store == "s3" else None
        return Places(store, tmp_path_factory.mktemp(store), endpoint)

    return make


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The folder with the files that loads read."""
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def prepare(inputs):
    """What makes the graph for a crash of a session."""

    def make(crash, places):
        return crash.writer.prepare(places.fresh(), places.options, inputs)

    return make
