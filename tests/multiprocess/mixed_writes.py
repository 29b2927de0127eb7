"""The writing deeds of a mixed run, each on a graph and the memory of the process that does it."""

from __future__ import annotations

from typing import Any

from omnigraph.graph.branch import Branch
from omnigraph.graph.graph import Graph
from tests.multiprocess.mixed_content import SHARED, Change, to_lines
from tests.multiprocess.mixed_member import MAIN, Member, OwnBranch

_UPDATE = "query u($n: String, $v: I64) { update Person set { value: $v } where name = $n }"
_DELETE = "query d($n: String) { delete Person where name = $n }"
_INSERT = """query i($n: String, $o: I64, $v: I64, $w: String, $to: String, $s: I64) {
  insert Person { name: $n, owner: $o, value: $v, note: $w }
  insert Knows { from: $n, to: $to, serial: $s }
}"""
_MOST_ROWS, _MOST_BRANCHES, _MOST_TAGS = 120, 3, 3


def append(graph: Graph, me: Member) -> None:
    """Load nodes that nobody has, and edges from them."""
    _load(graph, me, "append", _fresh(me, me.random.randint(1, 6)))


def upsert(graph: Graph, me: Member) -> None:
    """Load nodes that are there already, some of them everybody's, beside one that is not."""
    change = _fresh(me, 1)
    some = _some(me, 3) + me.random.sample(SHARED, me.random.randint(0, 2))
    _load(graph, me, "merge", Change(put={**change.put, **{name: _value(me) for name in some}}, link=change.link))


def update(graph: Graph, me: Member) -> None:
    """Change one node, or insert one with its edge."""
    if me.random.random() < 0.5 and me.main.nodes:
        (name,) = _some(me, 1)
        change = Change(put={name: _value(me)})
        params = {"n": name, "v": change.put[name]}
        me.write("update", lambda actor: graph.mutate(_UPDATE, params, actor=actor), changes=[change])
        return
    change = _fresh(me, 1, links=1)
    ((name, value),), ((serial, (_, to)),) = change.put.items(), change.link.items()
    given = {"n": name, "o": me.number, "v": value, "w": f"word{me.number}", "to": to, "s": serial}
    me.write("update", lambda actor: graph.mutate(_INSERT, given, actor=actor), changes=[change])


def batch(graph: Graph, me: Member) -> None:
    """Change several nodes in one commit."""
    change = Change(put={name: _value(me) for name in _some(me, 4)})
    rows = [{"n": name, "v": value} for name, value in change.put.items()]
    if rows:
        me.write("batch", lambda actor: graph.mutate_batch(_UPDATE, rows, actor=actor), changes=[change])


def delete(graph: Graph, me: Member) -> None:
    """Delete a node with its edges."""
    if me.main.nodes:
        (name,) = _some(me, 1)
        change = Change(drop=(name,))
        me.write("delete", lambda actor: graph.mutate(_DELETE, {"n": name}, actor=actor), changes=[change])


def thin_out(graph: Graph, me: Member) -> None:
    """Delete half of what there is when it has become much, so that a long run does not grow."""
    if len(me.main.nodes) > _MOST_ROWS:
        gone = tuple(_some(me, _MOST_ROWS // 2))
        rows = [{"n": name} for name in gone]
        change = Change(drop=gone)
        me.write("delete", lambda actor: graph.mutate_batch(_DELETE, rows, actor=actor), changes=[change])


def fork(graph: Graph, me: Member) -> None:
    """Make a branch of main, of an earlier state, or of another branch of this process."""
    if len(me.branches) >= _MOST_BRANCHES:
        return
    me.serial += 1
    name, kind = f"{me.prefix}b{me.serial}", me.random.random()
    at, own = None, OwnBranch(me.main.copy())
    if kind < 0.3 and me.states:
        at, content = me.random.choice(me.states[-6:])
        own = OwnBranch(content.copy())
    elif kind < 0.5 and me.branches:
        at = me.random.choice(sorted(me.branches))
        own = OwnBranch(me.branches[at].content.copy(), list(me.branches[at].ahead))
    with me.attempt("fork"):
        graph.create_branch(name, at=at, actor=me.name)
        me.branches[name] = own


def branch_write(graph: Graph, me: Member) -> None:
    """Load into a branch, or delete there."""
    if not me.branches:
        return
    name = me.random.choice(sorted(me.branches))
    own, branch = me.branches[name], graph.branch(name)
    kind = me.random.random()
    if kind < 0.25 and own.content.nodes:
        gone = me.random.choice(sorted(own.content.nodes))
        change = Change(drop=(gone,))
        me.write(
            "branch_write",
            lambda actor: branch.mutate(_DELETE, {"n": gone}, actor=actor),
            branch=name,
            changes=[change],
        )
        return
    change = _fresh(me, 2, among=sorted(own.content.nodes))
    known = me.random.sample(sorted(own.content.nodes), min(2, len(own.content.nodes)))
    change = Change(put={**change.put, **{one: _value(me) for one in known}}, link=change.link)
    _load(branch, me, "merge", change, deed="branch_write")


def merge(graph: Graph, me: Member) -> None:
    """Merge a branch of this process into main."""
    if not me.branches:
        return
    name = me.random.choice(sorted(me.branches))
    ahead = list(me.branches[name].ahead)
    if me.write("merge", lambda actor: graph.merge(name, actor=actor), changes=ahead):
        for own in me.branches.values():
            own.ahead = [change for change in own.ahead if not any(change is merged for merged in ahead)]


def unbranch(graph: Graph, me: Member) -> None:
    """Delete a branch."""
    if me.branches:
        name = me.random.choice(sorted(me.branches))
        with me.attempt("unbranch"):
            graph.delete_branch(name, actor=me.name)
            del me.branches[name]


def revert(graph: Graph, me: Member) -> None:
    """Undo one of the last commits of this process."""
    if me.commits:
        chosen = me.random.choice(me.commits[-6:])
        me.write("revert", lambda actor: graph.revert(chosen.commit, actor=actor), reverts=chosen.actor)


def tag(graph: Graph, me: Member) -> None:
    """Name the newest state, or an earlier one of this process."""
    if len(me.tags) >= _MOST_TAGS:
        return
    me.serial += 1
    name, at, content = f"{me.prefix}t{me.serial}", None, me.main.copy()
    if me.random.random() < 0.4 and me.states:
        at, content = me.random.choice(me.states[-4:])
    with me.attempt("tag"):
        graph.create_tag(name, at=at, actor=me.name)
        me.tags[name] = content


def untag(graph: Graph, me: Member) -> None:
    """Remove a tag."""
    if me.tags:
        name = me.random.choice(sorted(me.tags))
        with me.attempt("untag"):
            graph.delete_tag(name)
            del me.tags[name]


def optimize(graph: Graph, me: Member) -> None:
    """Compact and index main, or a branch."""
    names = [MAIN, MAIN, *sorted(me.branches)]
    chosen = me.random.choice(names)
    with me.attempt("optimize"):
        (graph if chosen == MAIN else graph.branch(chosen)).optimize(actor=me.name)


def cleanup(graph: Graph, me: Member) -> None:
    """Give back what few newest states, or the last seconds, do not need."""
    keep = me.random.choice([1, 2, 5, 20])
    older_than_s = me.random.choice([None, 0.0, 1.0, 5.0])
    with me.attempt("cleanup"):
        done = graph.cleanup(keep=keep, older_than=older_than_s, dry_run=False)
        me.note("cleaned", bytes=done.bytes)
        for item in done.datasets:
            if item.error is not None:
                me.note("finding", text=f"a cleanup could not remove everything: {item}")


def settle(graph: Graph, me: Member) -> bool:
    """Write once, behind everything that an earlier life of this process may have left under way."""
    change = _fresh(me, 1, links=0)
    return _load(graph, me, "append", change, deed="settle")


def tidy(graph: Graph, me: Member) -> None:
    """Remove branches and tags of an earlier life, which nobody knows the content of."""
    for one in graph.tags():
        if one.name.startswith(me.prefix):
            with me.attempt("tidy"):
                graph.delete_tag(one.name)
    left = [str(one.name) for one in graph.branches() if str(one.name).startswith(me.prefix)]
    # A branch of a branch goes before the one it came from.
    for _ in left:
        for name in sorted({str(one.name) for one in graph.branches()} & set(left)):
            with me.attempt("tidy"):
                graph.delete_branch(name, actor=me.name)


def _load(graph: Graph | Branch, me: Member, mode: Any, change: Change, deed: str | None = None) -> bool:
    path = me.folder / f"{me.name}-input.jsonl"
    path.write_text(to_lines(change, me.number), encoding="utf-8")
    branch = graph.name if isinstance(graph, Branch) else MAIN
    chosen = deed or ("upsert" if mode == "merge" else "append")
    return me.write(chosen, lambda actor: graph.load(path, mode, actor=actor), branch=branch, changes=[change])


def _fresh(me: Member, count: int, *, links: int | None = None, among: list[str] | None = None) -> Change:
    """Return nodes with ids that were never used, and edges from some of them."""
    me.serial += 1
    put = {f"{me.prefix}{me.serial}-{number}": _value(me) for number in range(count)}
    ends = [*SHARED, *put, *(_some(me, 3) if among is None else among[:3])]
    many = me.random.randint(0, 2) if links is None else links
    first = (me.number * 1_000_000 + me.serial) * 10
    link = {first + number: (me.random.choice(sorted(put)), me.random.choice(ends)) for number in range(many)}
    return Change(put=put, link=link)


def _some(me: Member, count: int) -> list[str]:
    return me.random.sample(sorted(me.main.nodes), min(count, len(me.main.nodes)))


def _value(me: Member) -> int:
    return me.random.randint(1, 1_000_000)
