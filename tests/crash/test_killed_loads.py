"""A load of many chunks, killed at seeded moments: nothing or all of it is visible, and loading again is all it takes.

What a killed load may leave: a temporary folder, which the next load removes; and in the folders of the tables files
that no version names, which take room until a cleanup and change no answer.
"""

import tempfile
from collections import Counter

import pytest

from omnigraph.errors import KeyExistsError
from omnigraph.runtime import Runtime
from omnigraph.values import MAIN
from tests.crash.checks import assert_history_tells, assert_sound, recovery_kinds
from tests.crash.dying import crash_alone
from tests.crash.large_loads import LARGE_LOADS, sorted_rows, wanted_rows, write_large_inputs
from tests.crash.matrix import FORWARD
from tests.crash.session_child import SessionJob
from tests.crash.session_kinds import write_inputs
from tests.crash.session_matrix import AFTER_FILE, AFTER_STAGED, CHOSEN_LOADS, POINTS
from tests.session_graph import read_graph


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_large_inputs(write_inputs(tmp_path_factory.mktemp("inputs")))


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A place for temporary files that this test and the processes it kills share with nobody."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def hits_of(inputs, tmp_path_factory):
    """How often an undisturbed load passes each point; what it gives must be what is wanted."""
    known = {}

    def count(mode):
        if mode not in known:
            kind, runtime, hits = LARGE_LOADS[mode], Runtime.system({}), Counter()
            storage = kind.prepare(str(tmp_path_factory.mktemp("twin") / mode), None, inputs)
            for point in (AFTER_FILE, *POINTS):
                runtime.failpoints.enable(point, lambda point=point: hits.update([point]))
            kind.run(storage, runtime, inputs)
            with kind.open(storage, mode="read_only") as session:
                assert _rows(session) == wanted_rows(mode)
            known[mode] = hits
        return known[mode]

    return count


def _rows(session):
    found = {}
    for table_key, rows in read_graph(session).items():
        kind, _, name = table_key.partition(":")
        found[name] = sorted_rows(_envelope(kind, name, row) for row in rows.values())
    return found


def _envelope(kind, name, row):
    if kind == "node":
        return {"type": name, "data": row}
    return {"edge": name, "from": row.pop("src"), "to": row.pop("dst"), "data": row}


def _left_in(scratch):
    """What lies in a folder of temporary files, but for the locks of the line, which the machine keeps."""
    return [path for path in scratch.iterdir() if not path.name.startswith("omnigraph-lines-")]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CHOSEN_LOADS])
def test_a_killed_load_shows_nothing_or_all_and_loading_again_gives_the_wanted_graph(
    case, places_of, inputs, hits_of, scratch
):
    kind, places, wanted = LARGE_LOADS[case.mode], places_of(case.store), wanted_rows(case.mode)
    storage = kind.prepare(places.fresh(), places.options, inputs)
    with kind.open(storage, mode="read_only") as session:
        before = _rows(session)
    crash_alone(_job(kind, storage, inputs, scratch), case.point, case.nth(hits_of(case.mode)[case.point]))
    if case.point in {AFTER_FILE, AFTER_STAGED}:
        assert _left_in(scratch), "the load did not spill, so there is nothing for the next one to remove"
    with kind.open(storage, mode="read_only") as session:
        assert _rows(session) == (wanted if case.is_visible else before)
    with kind.open(storage) as session:
        recovered = recovery_kinds(storage)
        is_there = case.is_visible or recovered == [FORWARD]
        assert _rows(session) == (wanted if is_there else before)
        assert_history_tells(session.store, MAIN, recovered)
        assert_sound(storage)
        _load_again(kind, session, inputs, is_there=is_there)
        assert _rows(session) == wanted
    assert _left_in(scratch) == []
    assert_sound(storage)


def _load_again(kind, session, inputs, *, is_there):
    if is_there and kind.name == "append":
        with pytest.raises(KeyExistsError):
            kind.write(session, inputs)
    else:
        assert kind.write(session, inputs).commit is not None


def _job(kind, storage, inputs, scratch):
    return SessionJob(
        name=kind.name,
        root=storage.root,
        options=dict(storage.options),
        kind=kind.name,
        act="write",
        point=None,
        inputs=str(inputs),
        scratch=str(scratch),
    )
