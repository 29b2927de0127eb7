"""What the bar of a load shows: a share only where a total is known, and a clock that runs until the end."""

from __future__ import annotations

import io

from rich.console import Console

from omnigraph.cli.commands.data.load import open_bar
from omnigraph.engine.load import LoadProgress


def drawn(bar) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(bar.bar.get_renderable())
    return console.file.getvalue()


def test_no_share_is_shown_before_a_total_is_known_nor_while_rows_are_written():
    with open_bar(is_wanted=True) as bar:
        assert bar is not None
        text = drawn(bar)
        assert "reading" in text
        assert "?" not in text
        assert "━" not in text
        bar.show(LoadProgress(phase="read", bytes_read=512, bytes_total=2048, rows=10))
        text = drawn(bar)
        assert "512/2,048 bytes" in text or "0.5/2.0 KiB" in text
        assert "━" in text
        bar.show(LoadProgress(phase="read", bytes_read=2048, bytes_total=2048, rows=40))
        started = bar.bar.tasks[-1].start_time
        for phase, word in (("check", "checking"), ("write", "writing")):
            bar.show(LoadProgress(phase=phase, rows=40))
            text = drawn(bar)
            assert word in text
            assert "40 rows" in text
            assert "━" not in text
            (task,) = bar.bar.tasks
            assert task.start_time == started
            assert not task.finished
