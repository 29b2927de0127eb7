"""Write a graph with the version of omnigraph that is imported: ``python write_store.py ARCHIVE NAME``.

The archives below ``stores`` were written by this program with earlier versions, whose source was put on the path
(``git archive COMMIT src``). They are kept: later versions have to read what those have written. NAME chooses how much
the graph has, for not every version could do everything:

========= ========= =======================================================================================
NAME      commit    the version
========= ========= =======================================================================================
first     3670cc69  the first with a number for its format: loads and mutations, commits without ``touched``
branches  8ef61ede  branches, tags, merges; fields of a commit that it does not know are dropped
last      c2577f5b  the last of format 1: keys, reverts, change logs, kept states of merged branches
========= ========= =======================================================================================
"""

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path

from omnigraph.cli.main import main

SCHEMA = """
node Person {
    slug: String @key
    name: String?
    age: I32?
    near: Vector(4)?
}
node Team { code: String @key }
edge Knows: Person -> Person { since: I32? }
edge WorksIn: Person -> Team
"""
WITH_NICK = SCHEMA.replace("    age: I32?\n", "    age: I32?\n    nick: String?\n")
PEOPLE = ("ann", "bo", "cy", "di")
INSERT = 'query add() { insert Person { slug: "%s", name: "%s" } }'


def run(*arguments):
    """Run a command of omnigraph."""
    try:
        status = main(list(arguments))
    except SystemExit as ended:
        status = ended.code
    if status:
        msg = f"omnigraph {arguments[0]} ended with {status}"
        raise RuntimeError(msg)


def first_rows():
    """The lines of the first load: four people with vectors, two teams and the edges between them."""
    for number, slug in enumerate(PEOPLE):
        near = [float(number == place) for place in range(4)]
        yield {"type": "Person", "data": {"slug": slug, "name": slug.title(), "age": 30 + number, "near": near}}
    for code in ("red", "blue"):
        yield {"type": "Team", "data": {"code": code}}
    for start, end in (("ann", "bo"), ("bo", "cy"), ("cy", "di")):
        yield {"edge": "Knows", "from": start, "to": end, "data": {"since": 2020}}
    yield {"edge": "WorksIn", "from": "ann", "to": "red"}


def write_first(graph, folder):
    """A load, an update, a delete that takes edges along, and an insert."""
    (folder / "schema.pg").write_text(SCHEMA)
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, first_rows())))
    run("init", "--schema", str(folder / "schema.pg"), graph)
    run("load", graph, "--data", str(folder / "rows.jsonl"), "--mode", "append")
    for text in (
        'query older() { update Person set { age: 40 } where slug = "ann" }',
        'query gone() { delete Person where slug = "cy" }',
        INSERT % ("eve", "Eve"),
    ):
        (folder / "change.gq").write_text(text)
        run("mutate", "--store", graph, "--query", str(folder / "change.gq"))


def write_branches(graph, folder):
    """What the first has, a tag, a branch that is merged, one that is open, and a new property."""
    import omnigraph  # noqa: PLC0415 - the first version has no such module

    write_first(graph, folder)
    with omnigraph.open(graph) as opened:
        tag = opened.create_tag if hasattr(opened, "create_tag") else opened.tag
        tag("v1")
        opened.create_branch("merged")
        opened.branch("merged").mutate(INSERT % ("fay", "Fay"))
        opened.merge("merged")
        opened.apply_schema(WITH_NICK)
        opened.mutate('query nick() { update Person set { nick: "B" } where slug = "bo" }')
        opened.create_branch("open")
        opened.branch("open").mutate(INSERT % ("gus", "Gus"))
        opened.mutate('query gone() { delete Person where slug = "di" }')


def write_last(graph, folder):
    """What the branches have, and what commits of later versions tell; the merged branch is deleted."""
    import omnigraph  # noqa: PLC0415 - see above
    from omnigraph.runtime import CallContext, calling  # noqa: PLC0415 - see above

    write_branches(graph, folder)
    log = [
        {"type": "Person", "_op": "upsert", "_seq": 10, "data": {"slug": "hal", "name": "Hal"}},
        {"type": "Person", "_op": "upsert", "_seq": 10, "data": {"slug": "ida", "name": "Ida"}},
        {"type": "Person", "_op": "delete", "_seq": 20, "data": {"slug": "ida"}},
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, log)))
    with omnigraph.open(graph) as opened:
        opened.delete_branch("merged")
        with calling(CallContext(request_id="r-1", idempotency_key="order-17", payload_digest="jo")):
            opened.mutate(INSERT % ("jo", "Jo"))
        opened.mutate(INSERT % ("kit", "Kit"))
        opened.revert(opened.log()[0].id, message="no kit")
        opened.load(str(folder / "log.jsonl"), mode="apply", batch=("crm", 1))
        opened.optimize()


WRITERS = {"first": write_first, "branches": write_branches, "last": write_last}


def pack(archive, name):
    """Write the graph ``name`` and put it into an archive, beside a file that tells where it was."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph"
        WRITERS[name](str(graph), Path(folder))
        with tarfile.open(archive, "w:gz", compresslevel=9) as packed:
            packed.add(graph, "graph", filter=_anonymous)
            root = tarfile.TarInfo("root")
            root.size = len(str(graph).encode())
            packed.addfile(root, io.BytesIO(str(graph).encode()))


def _anonymous(member):
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    pack(sys.argv[1], sys.argv[2])
