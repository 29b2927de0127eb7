"""Applies of clusters that die: what they are about, where they die, and what must be there after the next one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cluster.ledger.lock import LockFile
from omnigraph.engine.open_graph import OpenGraph
from tests.cluster_directory import AGED, AGES, ClusterDirectory, codes, whole
from tests.crash.checks import assert_sound
from tests.crash.later import later_world, watch_for_hours
from tests.crash.matrix import IS_FULL

NOTES = "node Note { slug: String @key }\n"
MOVES = (
    "cluster.apply.before_sidecar",
    "cluster.apply.after_sidecar",
    "cluster.apply.after_move",
    "cluster.apply.after_note",
)
WRITES = ("cluster.apply.before_state", "cluster.apply.after_state")
PAYLOAD, CLEANUP, APPROVAL = (f"cluster.apply.after_{what}" for what in ("payload", "cleanup", "approval"))
CLUSTER_POINTS = (*MOVES, PAYLOAD, *WRITES, CLEANUP, APPROVAL)
# Inside of the engine, which has a recovery of its own.
BEFORE_GRAPH = "txn.init.before_manifest"
INSIDE = (BEFORE_GRAPH, "txn.claim.after_put", "txn.publish.before_cas", "txn.publish.after_cas")


@dataclass(frozen=True, kw_only=True)
class ClusterScene:
    """An apply: what is there before it, and how often it passes each point."""

    name: str
    prepare: Callable[[ClusterDirectory], None]
    passes: dict[str, int]


def _import(directory: ClusterDirectory) -> None:
    assert directory.session().import_graphs().is_ok


def _change_everything(directory: ClusterDirectory) -> None:
    """Another schema and query, another graph, one graph fewer, other bindings."""
    assert directory.session().apply(actor="act-mira").is_converged
    directory.graph("crm", AGED, AGES, "embedding_provider: vec")
    directory.graph("notes", NOTES)
    directory.policies.pop("books-acl")
    directory.drop_graph("books")
    directory.policy("crm-acl", "crm, notes")
    assert directory.session().approve("graph.books", actor="act-mira").is_ok


MAKING = ClusterScene(
    name="making",
    prepare=lambda directory: None,
    passes={**dict.fromkeys(MOVES, 2), PAYLOAD: 4, **dict.fromkeys(WRITES, 1), CLEANUP: 2, BEFORE_GRAPH: 2},
)
CHANGING = ClusterScene(
    name="changing",
    prepare=_change_everything,
    passes={
        **dict.fromkeys(MOVES, 3),
        PAYLOAD: 2,
        **dict.fromkeys(WRITES, 1),
        CLEANUP: 3,
        APPROVAL: 1,
        **dict.fromkeys(INSIDE, 1),
    },
)
SCENES = {scene.name: scene for scene in (MAKING, CHANGING)}


@dataclass(frozen=True, kw_only=True)
class ClusterCrash:
    """An apply that dies at the ``nth`` time it passes a point."""

    scene: str
    point: str
    nth: int

    @property
    def name(self) -> str:
        return f"{self.scene}-{self.point}@{self.nth}"


_CRASHES = [
    ClusterCrash(scene=scene.name, point=point, nth=nth)
    for scene in (CHANGING, MAKING)
    for point, count in scene.passes.items()
    for nth in range(1, count + 1)
]
# Every point that an apply passes, now with the first and now with the last graph.
_ONE_EACH = [
    ClusterCrash(scene=CHANGING.name, point=point, nth=1 if number % 2 else count)
    for number, (point, count) in enumerate(CHANGING.passes.items())
]
CHOSEN_CRASHES = {
    "local": _CRASHES if IS_FULL else _ONE_EACH,
    "s3": _CRASHES if IS_FULL else _CRASHES[::9],
}


def prepare(scene: ClusterScene, path: Path, root: str | None, options: dict[str, str] | None) -> ClusterDirectory:
    """Make the cluster that a scene begins with."""
    directory = whole(path, root=root, options=options)
    _import(directory)
    scene.prepare(directory)
    return directory


def copy_directory(directory: ClusterDirectory, path: Path) -> ClusterDirectory:
    """Return a copy of a cluster whose storage is its directory."""
    shutil.copytree(directory.path, path)
    return ClusterDirectory(path)


def unlock(directory: ClusterDirectory) -> None:
    """Remove the lock that a dead apply has left, by its id, as a person would."""
    lock = LockFile(directory.place()).read()
    if lock is not None:
        refused = directory.session().apply(actor="act-mira")
        assert codes(refused) == ["state_lock_held"]
        assert lock.lock_id in refused.findings.items[0].message
        assert directory.session().force_unlock(lock.lock_id).is_ok


def converge(directory: ClusterDirectory, *, outlived: bool = False) -> None:
    """Apply again as a person would: unlock, remove what is no graph if that is asked for, and be done.

    ``outlived`` says that the process of the apply before lives on, so that its claims only end by their silence.
    """
    unlock(directory)
    report = directory.session(later_world() if outlived else None).apply(actor="act-mira")
    if "graph_create_incomplete" in codes(report):
        place = directory.place()
        for finding in report.findings.items:
            if finding.code == "graph_create_incomplete":
                place.objects.delete_prefix(place.graph_key(finding.path.removeprefix("graph.")))
        report = directory.session().apply(actor="act-mira")
    assert report.is_converged, report.findings.items
    assert report.is_ok, report.findings.items
    assert not directory.session().apply(actor="act-mira").is_written


def audit(directory: ClusterDirectory, *, outlived: bool = False) -> dict:
    """Return everything about a cluster that has to be the same after a crash as without one."""
    place, state = directory.place(), directory.state()
    keys = place.objects.list_keys("")
    graphs = sorted({key.split("/")[1] for key in keys if key.startswith("graphs/")})
    schemas, observations = {}, state["observations"]
    for name in graphs:
        storage = place.graph_storage(name.removesuffix(".omni"))
        # Whoever writes next ends what a writer that is gone has left in a graph.
        world = later_world() if outlived else None
        with OpenGraph.open(storage, runtime=world) as graph:
            if world is not None:
                watch_for_hours(graph.store, world)
        assert_sound(storage)
        with OpenGraph.open(storage, mode="read_only") as graph:
            found = graph.snapshot().state
        schemas[name] = (found.schema.source, found.recent[-1].actor)
        # Undoing what a writer has left takes a version, too.
        assert observations[f"graph.{name.removesuffix('.omni')}"].pop("graph_manifest_version") in {found.version, 1}
    # It holds the address of the storage, which is another one for each cluster.
    assert state["applied_revision"].pop("config_digest")
    approvals = [key for key in keys if "/approvals/" in key]
    for observation in observations.values():
        for changing in ("observed_at", "deleted_at", "approval_id", "graph_uri"):
            observation.pop(changing, None)
    return {
        "graphs": schemas,
        "applied": state["applied_revision"],
        "statuses": state["resource_statuses"],
        "observations": observations,
        "consumed": [record["consumed_at"] is not None for record in state["approval_records"].values()],
        "approvals": [b'"consumed_at": null' not in place.objects.get(key) for key in approvals],
        "payloads": [key for key in keys if "/resources/" in key],
        "others": [key for key in keys if "/recoveries/" in key or key.endswith("lock.json")],
    }
