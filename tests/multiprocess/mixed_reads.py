"""The reading deeds of a mixed run: each compares what it finds with what the process must find."""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable, Iterable

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import OmnigraphError
from omnigraph.graph.graph import Graph
from omnigraph.graph.state import State
from omnigraph.history.diff.change import EntityChange
from tests.multiprocess.mixed_content import Content, read_lines
from tests.multiprocess.mixed_member import Held, Member

_OWN = "query q($o: I64) { match { $p: Person { owner: $o } } return { $p.name as n, $p.value as v } }"
_ALL = "query a() { match { $p: Person } return { $p.name as n, $p.value as v } }"
_WORD = "query s($w: String) { match { $p: Person search($p.note, $w) } return { $p.name as n, $p.value as v } }"


def look(graph: Graph, me: Member) -> None:
    """Ask for the nodes of this process in the newest state."""
    with me.attempt("look"):
        me.check("look", _nodes(me.main), _asked(graph, _OWN, {"o": me.number}))


def search(graph: Graph, me: Member) -> None:
    """Search for the word that only nodes of this process have."""
    with me.attempt("search"):
        me.check("search", _nodes(me.main), _asked(graph, _WORD, {"w": f"word{me.number}"}))


def look_back(graph: Graph, me: Member) -> None:
    """Ask an earlier state, by its commit or counted back from the newest."""
    if not me.states:
        return
    commit, meant = me.random.choice(me.states)
    with me.attempt("look_back"):
        if me.random.random() < 0.3:
            there = graph.at(f"~{me.random.randint(1, min(30, len(me.commits)))}")
            first, again = _exported(there), _asked(there, _ALL, {})
            for text in _nodes(first).differences(again):
                me.note("finding", text=f"an earlier state is read in two ways {text}")
            return
        me.check("look_back", _nodes(meant), _asked(graph.at(commit), _OWN, {"o": me.number}))


def look_at_tag(graph: Graph, me: Member) -> None:
    """Ask a state that a tag keeps."""
    if me.tags:
        name = me.random.choice(sorted(me.tags))
        with me.attempt("look_at_tag"):
            me.check("look_at_tag", me.tags[name], _exported(graph.at(f"tag:{name}")))


def branch_look(graph: Graph, me: Member) -> None:
    """Ask a branch of this process."""
    if me.branches:
        name = me.random.choice(sorted(me.branches))
        with me.attempt("branch_look"):
            me.check(f"branch_look {name}", me.branches[name].content, _exported(graph.branch(name)))


def export(graph: Graph, me: Member) -> None:
    """Export the newest state as one stream."""
    with me.attempt("export"):
        me.check("export", me.main, _exported(graph))


def export_files(graph: Graph, me: Member) -> None:
    """Export into a folder, which holds nothing unless the export was whole."""
    target = me.folder / f"{me.name}-export"
    shutil.rmtree(target, ignore_errors=True)
    with me.attempt("export_files"):
        try:
            done = graph.export(target)
        except OmnigraphError:
            left = [path for path in target.rglob("*") if path.is_file()] if target.exists() else []
            if left:
                me.note("finding", text=f"an export that failed left files: {left}")
            raise
        content, rows = read_lines(b"".join(path.read_bytes() for path in sorted(target.glob("*/**/*.jsonl"))))
        if rows != sum(item.rows for item in done.types):
            me.note("finding", text=f"an export says other rows than it wrote said={done.types} wrote={rows}")
        me.check("export_files", me.main, content)


def diff(graph: Graph, me: Member) -> None:
    """Compare two states of this process."""
    if len(me.states) < 2:
        return
    first, second = sorted(me.random.sample(range(len(me.states)), 2))
    (before, old), (after, new) = me.states[first], me.states[second]
    with me.attempt("diff"):
        me.check("diff", new, _changed(old.copy(), graph.diff(before, after)))


def poll(graph: Graph, me: Member) -> None:
    """Follow the feed to its end; what it tells must lead to what there is."""
    with me.attempt("poll"):
        if me.feed is None:
            me.feed = graph.feed("now").token, me.main.copy()
        token, content = me.feed
        me.feed = None
        feed = graph.feed(token)
        for batch in feed:
            content = _changed(content, batch)
        me.check("poll", me.main, content)
        me.feed = feed.token, me.main.copy()


def hold(graph: Graph, me: Member) -> None:
    """Begin a read that goes on later: rows, a difference, or an export that somebody takes slowly."""
    if len(me.held) > 2 or len(me.states) < 2:
        return
    (before, old), (commit, meant) = me.states[0], me.states[-1]
    kind = me.random.randint(0, 2)
    with me.attempt("hold"):
        if kind == 0:
            result = graph.at(commit).query(_ALL, options=QueryOptions(streams=True)).stream()
            begun = [next(result)]
            finish: Callable[[], Content] = lambda: _rows(  # noqa: E731 - one of three ways to go on
                row for batch in (*begun, *result) for row in batch.to_pylist()
            )
            meant = _nodes(meant)
        elif kind == 1:
            changes = iter(graph.diff(before, commit))
            first = [change for change in (next(changes, None),) if change is not None]
            finish = lambda: _changed(old.copy(), (*first, *changes))  # noqa: E731 - one of three ways to go on
        else:
            finish = SlowExport(graph.at(commit)).finish
        me.held.append(Held(finish, meant, me.deeds + me.random.randint(2, 8)))


def go_on(me: Member, *, is_end: bool = False) -> None:
    """Finish the reads whose time has come."""
    for item in [item for item in me.held if is_end or item.due <= me.deeds]:
        me.held.remove(item)
        with me.attempt("hold"):
            me.check("hold", item.meant, item.finish())


def status(graph: Graph, me: Member) -> None:
    """Ask how the graph fares."""
    with me.attempt("status"):
        graph.status()


class SlowExport:
    """An export whose reader takes the first piece and nothing more until the end is asked for."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._data = io.BytesIO()
        self._go = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Take a piece when it is time."""
        self._go.wait()
        self._data.write(data)

    def finish(self) -> Content:
        """Let it run to its end."""
        self._go.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return read_lines(self._data.getvalue())[0]

    def _run(self) -> None:
        try:
            self._state.export_stream(self)
        except BaseException as error:  # noqa: BLE001 - whoever asks for the end gets it
            self._error = error


def _exported(state: State) -> Content:
    data = io.BytesIO()
    state.export_stream(data)
    return read_lines(data.getvalue())[0]


def _asked(state: State, text: str, params: dict[str, object]) -> Content:
    return _rows(state.query(text, params).rows())


def _rows(rows: Iterable[dict[str, object]]) -> Content:
    content = Content()
    for row in rows:
        content.nodes[str(row["n"])] = int(str(row["v"]))
    return content


def _nodes(content: Content) -> Content:
    return Content(dict(content.nodes))


def _changed(content: Content, changes: Iterable[EntityChange]) -> Content:
    for change in changes:
        image = change.before if change.after is None else change.after
        assert image is not None
        if change.kind == "node":
            if change.after is None:
                content.nodes.pop(change.id, None)
            else:
                content.nodes[change.id] = image.properties["value"]
        elif change.after is None:
            content.edges.pop(image.properties["serial"], None)
        else:
            assert image.endpoints is not None
            content.edges[image.properties["serial"]] = image.endpoints.source, image.endpoints.target
    return content
