"""A client whose server died sends its write again: it is there once, wherever the server was."""

from dataclasses import replace

import pytest

from omnigraph.errors import RequestRepeatedError
from tests.crash.dying import crash_together
from tests.crash.keyed_child import CALL, KeyedJob, send
from tests.crash.matrix import AFTER_TABLE, BEFORE_CLAIM, BEFORE_TABLE, CLAIMED, LANDED, PUBLISHED, RELEASED
from tests.marks import STORES
from tests.txn_graph import PERSON, history, init_graph, open_graph, read_ids

LOST = (*BEFORE_CLAIM, *CLAIMED, BEFORE_TABLE)
KEPT = (AFTER_TABLE, *LANDED, *PUBLISHED, *RELEASED)


@pytest.fixture(scope="module", params=STORES)
def killed(request, places_of):
    places = places_of(request.param)
    storages = {point: init_graph(places.fresh(), places.options) for point in (*LOST, *KEPT)}
    crash_together(
        KeyedJob(name=point, root=storage.root, options=places.options, kind="keyed", act="write", point=point)
        for point, storage in storages.items()
    )
    return storages


@pytest.mark.parametrize("point", [*LOST, *KEPT])
def test_a_write_sent_again_after_a_crash_is_there_once(killed, point):
    storage, again = killed[point], replace(CALL, request_id="second")
    if point in KEPT:
        with pytest.raises(RequestRepeatedError) as told:
            send(storage, again)
        assert told.value.details.request_id == "first"
    else:
        assert send(storage, again).commit.request_id == "second"
    with open_graph(storage) as graph:
        commits = [commit for commit in history(graph) if commit.request is not None]
        assert len(commits) == 1
        assert commits[0].request.receipt == {"inserted": 1}
        assert read_ids(graph, PERSON) == [commits[0].id]
