"""The line of writers on one machine: nobody overtakes whoever is next, and the dead do not block."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from omnigraph.runtime import folders
from omnigraph.store.location import Storage
from omnigraph.txn.offers import line as line_module
from omnigraph.txn.offers.line import Holder, MachineLine, News

HOLD = """
import sys
from omnigraph.store.location import Storage
from omnigraph.txn.offers.line import MachineLine

line = MachineLine(Storage.open(sys.argv[1]), "main~main")
assert line.try_take()
print("taken", flush=True)
sys.stdin.read()
"""
NEXT = HOLD.replace("line.try_take()", "not line.try_take(in_line=True) and line.is_next")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Returns places in the line of one branch; the locks lie in a folder of this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made = []

    def make(branch="main~main", root="g", **options):
        made.append(MachineLine(Storage.open(str(tmp_path / root)), branch, **options))
        return made[-1]

    yield make
    for place in made:
        place.close()


def test_one_has_the_turn_until_it_leaves(places):
    first, second = places(), places()
    assert first.try_take()
    assert first.try_take()
    assert not second.try_take()
    first.leave()
    assert second.try_take()


def test_whoever_is_next_is_not_overtaken_by_the_one_that_had_the_turn(places):
    busy, waiting = places(), places()
    assert busy.try_take()
    assert not waiting.try_take(in_line=True)
    assert waiting.is_next
    busy.leave()
    assert not busy.try_take()
    assert waiting.try_take()
    assert not waiting.is_next


def test_one_that_gives_up_does_not_stay_next(places):
    busy, gone, other = places(), places(), places()
    assert busy.try_take()
    assert not gone.try_take(in_line=True)
    gone.leave()
    assert not other.try_take(in_line=True)
    assert other.is_next


def test_one_that_others_may_publish_for_does_not_stand_in_the_way(places):
    busy, offering, waiting = places(), places(), places()
    assert busy.try_take()
    assert not offering.try_take()
    assert not offering.is_next
    assert not waiting.try_take(in_line=True)
    busy.leave()
    assert not offering.try_take()
    assert waiting.try_take()


def test_news_are_told_to_those_of_the_same_branch_alone(places, monkeypatch):
    monkeypatch.setattr(line_module, "_PLACES", 1)
    teller, listener, stranger = places(), places(), places(branch="other~01")
    assert teller.try_take()
    assert not listener.try_take()
    assert not stranger.try_take()
    assert listener.news() == News()
    teller.leave(17, ["one.offer", "two.offer"])
    assert listener.news() == News(version=17, offers=frozenset({"one.offer", "two.offer"}))
    assert listener.news() is listener.news()
    assert stranger.news() == News()


def test_of_many_offers_some_are_told_and_none_is_cut_off(places):
    teller, listener = places(), places()
    names = [f"{number:026d}.offer" for number in range(500)]
    assert teller.try_take()
    assert not listener.try_take()
    teller.leave(17, names)
    told = listener.news()
    assert told.version == 17
    assert told.offers == frozenset(names[: len(told.offers)])
    assert len(told.offers) > 50


def test_news_that_cannot_be_read_are_no_news(places, tmp_path):
    teller, listener = places(), places()
    assert teller.try_take()
    assert not listener.try_take()
    teller.leave(17)
    (file,) = tmp_path.rglob("*.turn")
    file.write_bytes(b"\xff broken")
    assert listener.news() == News()


@pytest.fixture
def stopped(tmp_path, places):
    """Returns a process that has the turn and is stopped."""
    with holding(tmp_path) as holder:
        holder.send_signal(signal.SIGSTOP)
        wait_for_state(holder, "T")
        yield holder


def wait_for_state(process, letter):
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != letter:
        assert process.poll() is None


def test_those_behind_one_that_is_stopped_line_up_beside(places, stopped):
    first, second = places(), places()
    assert not first.try_take(in_line=True)
    assert not second.try_take()
    assert first.holder is Holder.STOPPED
    assert first.step_aside()
    assert second.step_aside()
    assert first.try_take()
    assert not second.try_take(in_line=True)
    assert second.is_next
    assert second.holder is Holder.RUNNING
    first.leave(18, ["one.offer"])
    assert second.news() == News(version=18, offers=frozenset({"one.offer"}))
    assert second.try_take()


def test_nobody_steps_aside_for_one_that_runs(places):
    busy, waiting = places(), places()
    assert busy.try_take()
    assert not waiting.try_take()
    assert waiting.holder is Holder.RUNNING
    assert not waiting.step_aside()
    busy.leave()
    assert waiting.holder is Holder.UNKNOWN


def test_whoever_stands_beside_comes_back_when_the_first_one_goes_on(places, stopped):
    aside = places()
    assert not aside.try_take()
    assert aside.step_aside()
    assert aside.try_take()
    aside.leave()
    stopped.send_signal(signal.SIGCONT)
    wait_for_state(stopped, "S")
    assert not aside.try_take(in_line=True)
    assert aside.is_next
    stopped.kill()
    stopped.wait()
    assert aside.try_take()


def test_one_that_is_stopped_while_it_is_next_is_passed_too(places, tmp_path):
    busy, aside = places(), places()
    assert busy.try_take()
    with holding(tmp_path, NEXT) as following:
        following.send_signal(signal.SIGSTOP)
        wait_for_state(following, "T")
        busy.leave()
        assert not aside.try_take()
        assert aside.step_aside()
        assert aside.try_take()


def test_there_are_only_so_many_lines(places, monkeypatch, tmp_path):
    monkeypatch.setattr(line_module, "_holder_of", lambda *_: Holder.STOPPED)
    for number in range(4):
        place = places()
        for _ in range(number):
            assert not place.try_take()
            assert place.step_aside()
        assert place.try_take()
        assert not place.step_aside(), "nobody leaves a turn by accident"
    last, steps = places(), 0
    while not last.try_take() and last.step_aside():
        steps += 1
    assert (steps, last.is_held) == (3, False)
    assert len(list(tmp_path.rglob("*.turn*"))) == 4


def test_branches_and_graphs_have_lines_of_their_own(places):
    assert places().try_take()
    assert places(branch="review~01").try_take()
    assert places(root="other").try_take()


def test_without_a_line_nobody_waits(places):
    assert places().try_take()
    assert places(is_used=False).try_take()


def _folder(name, tmp_path):
    """Where locks may lie, in the order in which places are tried."""
    user = os.geteuid()
    return {
        "graph": tmp_path / "g" / f"__lines~{user}",
        "runtime": tmp_path / "run" / "omnigraph-lines",
        "temporary": tmp_path / f"omnigraph-lines-{user}",
    }[name]


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """The graph exists, and the user has a runtime folder."""
    (tmp_path / "g").mkdir()
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def _users_of(places, tmp_path):
    """The places where two writers of one graph found each other."""
    first, second = places(), places()
    assert first.try_take()
    assert not second.try_take()
    names = ("graph", "runtime", "temporary")
    return [name for name in names if list(_folder(name, tmp_path).glob("*.turn"))]


def test_the_locks_lie_in_the_folder_of_the_graph_and_are_of_their_user_alone(places, tmp_path, homes):
    assert _users_of(places, tmp_path) == ["graph"]
    folder = _folder("graph", tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_where_the_graph_is_on_an_object_store_or_another_machine_they_lie_in_the_runtime_folder(
    places, tmp_path, homes, monkeypatch
):
    monkeypatch.setattr(line_module, "_is_remote", lambda _: True)
    assert _users_of(places, tmp_path) == ["runtime"]


def test_without_a_runtime_folder_they_lie_in_a_temporary_one(places, tmp_path):
    assert _users_of(places, tmp_path) == ["temporary"]


def _link(folder, victim):
    folder.symlink_to(victim.parent)


def _let_others_write(folder, victim):
    folder.mkdir()
    folder.chmod(0o777)


def _give_away(folder, victim):
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)


def _plant(link, folder, victim):
    """Fill a folder with links to a file of the user, as the folder's earlier owner could have done."""
    folder.mkdir(mode=0o700)
    for number in range(4096):
        for suffix in ("turn", "gate", "board"):
            link(victim, folder / f"{number:04d}.{suffix}")


TRICKS = {
    "the folder is a link": _link,
    "others may write to the folder": _let_others_write,
    "the folder is of another user": _give_away,
    "the files are links": partial(_plant, os.symlink),
    "the files are second names": partial(_plant, os.link),
}


@pytest.fixture
def victim(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "victim").write_text("precious")
    return tmp_path / "home" / "victim"


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("name", ["graph", "runtime", "temporary"])
def test_what_other_users_prepare_is_not_written_to(places, tmp_path, homes, victim, name, trick, monkeypatch):
    if trick == "the folder is of another user" and os.geteuid() != 0:
        monkeypatch.setattr(folders, "user_number", lambda: os.geteuid() + 1)
    for other in {"graph", "runtime", "temporary"} - {name}:
        _folder(other, tmp_path).write_text("not a folder")
    TRICKS[trick](_folder(name, tmp_path), victim)
    before = sorted(tmp_path.rglob("*"))
    first, second = places(), places()
    assert first.try_take()
    first.announce("01ARZ3NDEKTSV4RRFFQ69G5FAV.offer")
    first.leave(7, ["01ARZ3NDEKTSV4RRFFQ69G5FAV.offer"])
    assert second.try_take()
    assert victim.read_text() == "precious"
    assert sorted(tmp_path.rglob("*")) == before


def test_that_there_is_no_line_is_said_once(places, tmp_path, homes, caplog):
    line_module._miss_line.cache_clear()
    for name in ("graph", "runtime", "temporary"):
        _folder(name, tmp_path).write_text("not a folder")
    for _ in range(3):
        assert places().try_take()
    assert [record.message for record in caplog.records if "do not line up" in record.message] == [
        "no folder for locks is safe from other users, so writers of this machine do not line up: set XDG_RUNTIME_DIR"
    ]


def test_a_graph_that_is_gone_is_not_made_again_by_its_line(places, tmp_path):
    assert places().try_take()
    assert not (tmp_path / "g").exists()


def test_a_folder_that_cannot_be_made_means_that_there_is_no_line(places, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert places().try_take()
    assert places().try_take()


@contextmanager
def holding(folder, code=HOLD):
    """Give a process that holds a lock of the line of the test."""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder / "g")],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == "taken\n"
            yield process
        finally:
            process.kill()


def test_a_process_that_is_killed_gives_its_turn_back(places, tmp_path):
    with holding(tmp_path) as holder:
        place = places()
        assert not place.try_take()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert place.try_take()
