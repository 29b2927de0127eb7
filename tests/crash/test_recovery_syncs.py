"""A writer dies before it has synced, another process recovers its claim, and then the power goes."""

import pytest

from omnigraph.txn.claims import identity
from tests.crash.checks import assert_sound
from tests.crash.power import Recorder
from tests.crash.torn import FULL, fill, sidecars, stop_write
from tests.txn_graph import PERSON, init_graph, insert, node_rows, open_graph, read_ids

POINTS = ["txn.commit.after_table", "txn.commit.after_tables", "txn.publish.before_cas", "txn.publish.after_cas"]


@pytest.mark.parametrize("point", POINTS)
def test_what_recovery_finished_survives_a_power_cut(point, tmp_path, monkeypatch):
    storage = init_graph(tmp_path / "g")
    fill(storage)
    recorder = Recorder(storage.path())
    try:
        with recorder.recording(monkeypatch):
            stop_write(storage, point, monkeypatch)
            assert len(sidecars(storage)) == 1
            # The process that recovers dies with the machine, too.
            with monkeypatch.context() as patched:
                patched.setattr(identity, "_host", lambda: "here/boot-of-the-recoverer/pid")
                with open_graph(storage, settings=FULL) as graph:
                    recovered = read_ids(graph, PERSON)
        assert sidecars(storage) == ()
    finally:
        recorder.close()
    for cut in recorder.cuts[-2:]:
        after = type(storage).open(str(cut.write_to(tmp_path / f"{cut.number}-{cut.variant}")))
        with open_graph(after, settings=FULL) as graph:
            assert read_ids(graph, PERSON) == recovered, cut.variant
            insert(graph, PERSON, node_rows(["next"]))
        assert_sound(after)
