"""The driver of a load on Spark, killed anywhere: nothing or all of the load is visible, and it can be made again."""

import pytest

from omnigraph.errors import KeyExistsError
from omnigraph.values import MAIN
from tests.crash.checks import assert_history_tells, assert_sound, recovery_kinds
from tests.crash.dying import crash_alone
from tests.crash.matrix import FORWARD, PUBLISHED, RELEASED
from tests.crash.spark_child import CHOSEN, SPARK_LOADS, SparkLoadJob
from tests.load_graph import export


@pytest.mark.parametrize(("mode", "point"), CHOSEN)
def test_a_killed_driver_leaves_nothing_or_all_and_the_load_can_be_made_again(mode, point, inputs, tmp_path):
    kind = SPARK_LOADS[mode]
    storage = kind.prepare(str(tmp_path / "graph"), None, inputs)
    twin = kind.prepare(str(tmp_path / "twin"), None, inputs)
    with kind.open(twin) as session:
        session.load([str(inputs / f"{mode}.jsonl")], mode)
        wanted = plain(session)
    with kind.open(storage, mode="read_only") as session:
        before = plain(session)
    job = SparkLoadJob(
        name=mode, root=storage.root, options=None, kind=mode, act="write", point=None, inputs=str(inputs)
    )
    crash_alone(job, point, 1)
    is_visible = point in (*PUBLISHED, *RELEASED)
    with kind.open(storage, mode="read_only") as session:
        assert plain(session) == (wanted if is_visible else before)
    with kind.open(storage) as session:
        recovered = recovery_kinds(storage)
        is_there = is_visible or recovered == [FORWARD]
        assert plain(session) == (wanted if is_there else before)
        assert_history_tells(session.store, MAIN, recovered)
        if is_there and mode == "append":
            with pytest.raises(KeyExistsError):
                kind.write(session, inputs)
        else:
            done = kind.write(session, inputs)
            # A piece of a change log says which one it is: it is not written again, and the first commit is told.
            assert done.is_repeat == (is_there and mode == "apply")
            pieces = [commit for commit in session.log().commits if commit.batch is not None]
            assert pieces == ([done.commit] if mode == "apply" else [])
        assert len(plain(session)) == len(wanted)
    assert_sound(storage)


def plain(session):
    """Every row without its id, which is another one in every graph for some edges."""
    rows = export(session)
    return sorted(str({**row, "data": {**row["data"], "id": None}}) for row in rows)
