"""The board of a line: what writers of one machine say they have offered, and nothing that anybody depends on."""

from __future__ import annotations

import os

import pytest

from omnigraph.txn.offers.board import Board


def name(number, last="0000"):
    return f"01M7S0RNP5SYA4ETE5F6{number:02d}{last}.offer"


# A sum of four letters decides about the place.
ANN, BO, CY = name(1, "0001"), name(2, "0002"), name(3, "0003")
SAME_PLACE_AS_ANN = name(4, "0010")


@pytest.fixture
def boards(tmp_path):
    """Returns hands on one board, each of a process of its own."""
    made = []

    def make(mark="ours"):
        made.append(Board(os.open(tmp_path / "board", os.O_RDWR | os.O_CREAT), mark))
        return made[-1]

    yield make
    for board in made:
        board.close()


def test_others_see_what_was_announced_oldest_first(boards):
    ann, bo, reader = boards(), boards(), boards()
    assert reader.announced() == ()
    bo.announce(BO)
    ann.announce(ANN)
    assert reader.announced() == (ANN, BO)
    assert ann.announced() == (BO,)


def test_the_next_offer_of_a_process_takes_the_place_of_the_one_before(boards):
    ann, reader = boards(), boards()
    ann.announce(ANN)
    ann.announce(ANN)
    ann.announce(CY)
    assert reader.announced() == (CY,)
    ann.clear()
    ann.clear()
    assert reader.announced() == ()


def test_branches_that_share_a_file_do_not_see_each_other(boards):
    ours, theirs = boards(), boards("theirs")
    ours.announce(ANN)
    assert theirs.announced() == ()
    theirs.announce(BO)
    assert ours.announced() == ()
    assert boards().announced() == (ANN,)


def test_of_two_on_one_place_the_later_one_stays(boards):
    ann, bo, reader = boards(), boards(), boards()
    ann.announce(ANN)
    bo.announce(SAME_PLACE_AS_ANN)
    assert reader.announced() == (SAME_PLACE_AS_ANN,)
    ann.clear()
    assert reader.announced() == (SAME_PLACE_AS_ANN,)


def test_whoever_finds_that_an_offer_is_gone_wipes_it_off(boards):
    killed, bo, reader = boards(), boards(), boards()
    killed.announce(ANN)
    bo.announce(BO)
    reader.wipe([ANN, CY])
    assert reader.announced() == (BO,)


@pytest.mark.parametrize(
    "text", [b"ours ../../etc/passwd.offer", b"ours 01M7.offer", b"\xff\xfe broken", b"ours", b"ours " + b"Z" * 59]
)
def test_what_is_not_the_name_of_an_offer_is_not_read(boards, tmp_path, text):
    boards().announce(BO)
    with (tmp_path / "board").open("r+b") as file:
        file.write(text.ljust(64))
    assert boards().announced() == (BO,)


def test_a_board_that_was_cut_short_says_what_is_left_of_it(boards, tmp_path):
    boards().announce(ANN)
    os.truncate(tmp_path / "board", 10)
    assert boards().announced() == ()
