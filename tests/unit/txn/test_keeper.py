"""Renewals: a claim that is let go of is not renewed behind its back."""

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.txn_graph import authority_of, init_graph, open_graph

from omnigraph.store.control import ControlObjects
from omnigraph.txn.claims.heartbeat import ClaimHeartbeat


def test_letting_go_of_a_claim_waits_for_the_renewal_under_way(tmp_path, monkeypatch):
    storage = init_graph(tmp_path / "g")
    sending, may_land = threading.Event(), threading.Event()
    put = ControlObjects.put

    def slow_put(self, *args, **kwargs):
        sending.set()
        assert may_land.wait(300)
        put(self, *args, **kwargs)

    with open_graph(storage) as graph, ThreadPoolExecutor(1) as pool:
        services = authority_of(graph).services
        monkeypatch.setattr(ControlObjects, "put", slow_put)
        keeper = ClaimHeartbeat(services.claims, services.writer, grace_s=0.03)
        with keeper.holding(7):
            assert sending.wait(300)
        forgetting = pool.submit(keeper.forget, 7)
        assert not forgetting.done()
        may_land.set()
        assert forgetting.result(300)
        keeper.close()
        keys = services.stores.control.list_keys("__recovery")
        assert [key.rpartition("/")[2] for key in keys] == ["7.renewed.json"]
