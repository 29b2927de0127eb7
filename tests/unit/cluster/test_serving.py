"""What a server boots from: which problems keep all of a cluster from being served, and which only one graph."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.applied_cluster import apply_directory
from tests.unit.cluster.directory import CONFIG, write_directory

from omnigraph.cluster.codes import SERVING_CODES
from omnigraph.cluster.ledger.place import ClusterPlace
from omnigraph.cluster.serving import ServingSnapshot, find_root, ledger_stamp, read_serving
from omnigraph.engine.embedding.settings import Secret
from omnigraph.errors import ClusterStateError
from omnigraph.runtime import counting

TWO = CONFIG.replace(
    "policies:\n",
    "  sales:\n    schema: crm.pg\n    queries: { one: { file: gq/people.gq } }\n"
    "    external_blobs:\n      allow:\n        - { base: s3://files, scope: server_safe }\n"
    "        - { base: s3://own, scope: embedded_only }\npolicies:\n",
)
KEYS = {"VEC_KEY": "sk-test"}
SIDECAR = {
    "schema_version": 1,
    "operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "started_at": "2026-01-01T00:00:00.000Z",
    "kind": "schema_apply",
    "graph_id": "crm",
    "graph_uri": "graphs/crm.omni",
    "desired_schema_digest": "other",
}


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two graphs that were applied, one of them with a provider."""
    root = write_directory(tmp_path_factory.mktemp("applied"), {"cluster.yaml": TWO})
    apply_directory(root)
    return root


@pytest.fixture
def root(applied: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(applied, tmp_path / "cluster"))


def serving(root: Path, known: ServingSnapshot | None = None, **environment: str) -> ServingSnapshot:
    return read_serving(ClusterPlace(str(root)), environment or KEYS, known)


def edit(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the ledger by hand."""
    path = root / "__cluster" / "state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    change(state)
    path.write_text(json.dumps(state), encoding="utf-8")


def resources(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda root: edit(root, lambda state: change(state["applied_revision"]["resources"]))


def sidecar(root: Path, **changed: Any) -> None:
    path = root / "__cluster" / "recoveries" / f"{SIDECAR['operation_id']}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(SIDECAR | changed), encoding="utf-8")


def payload(root: Path) -> Path:
    return next((root / "__cluster" / "resources" / "query" / "crm" / "one").iterdir())


@dataclass(frozen=True, kw_only=True)
class Broken:
    code: str
    message: str
    damage: Callable[[Path], object]


BROKEN = [
    Broken(
        code="cluster_state_missing",
        message="the cluster has no ledger yet; run `omnigraph cluster import`",
        damage=lambda root: (root / "__cluster" / "state.json").unlink(),
    ),
    Broken(
        code="invalid_state_json",
        message="cannot read ledger",
        damage=lambda root: (root / "__cluster" / "state.json").write_text("{"),
    ),
    Broken(
        code="unsupported_state_version",
        message="has version 7",
        damage=lambda root: edit(root, lambda state: state.update(version=7)),
    ),
    Broken(code="cluster_empty", message="no graph of the cluster has been applied", damage=resources(dict.clear)),
    Broken(
        code="external_blob_policy_digest_mismatch",
        message="the digest of graph.sales does not follow from its schema, queries, provider and external blobs",
        damage=resources(lambda found: found["graph.sales"].pop("external_blob_policy")),
    ),
    Broken(
        code="catalog_payload_missing",
        message="the text of query.crm.one is missing",
        damage=lambda root: payload(root).unlink(),
    ),
    Broken(
        code="catalog_payload_digest_mismatch",
        message="the stored text of query.crm.one differs from the applied one",
        damage=lambda root: payload(root).write_text("query one() { }"),
    ),
    Broken(
        code="policy_bindings_missing",
        message="the ledger has no targets for policy.acl",
        damage=resources(lambda found: found["policy.acl"].pop("applies_to")),
    ),
    Broken(
        code="duplicate_policy_binding",
        message="policies 'acl' and 'ops' both apply to graph.crm",
        damage=resources(lambda found: found["policy.ops"].update(applies_to=["graph.crm"])),
    ),
    Broken(
        code="embedding_profile_missing",
        message="the ledger has no profile of provider.embedding.vec",
        damage=resources(lambda found: found["provider.embedding.vec"].pop("embedding_profile")),
    ),
    Broken(
        code="embedding_profile_digest_mismatch",
        message="the profile of provider.embedding.vec differs from the applied one",
        damage=resources(lambda found: found["provider.embedding.vec"]["embedding_profile"].update(model="large")),
    ),
    Broken(
        code="invalid_recovery_sidecar",
        message="cannot read recovery sidecar",
        damage=lambda root: sidecar(root, surplus=1),
    ),
    Broken(
        code="unsupported_recovery_sidecar_version",
        message="has version 2",
        damage=lambda root: sidecar(root, schema_version=2),
    ),
    Broken(
        code="cluster_recovery_unattributed",
        message="a recovery sidecar does not name its graph",
        damage=lambda root: sidecar(root, graph_id=""),
    ),
    Broken(
        code="cluster_no_healthy_graphs",
        message="no graph of the cluster can be served: crm: the ledger has no schema of the graph",
        damage=resources(lambda found: (found.pop("schema.crm"), found.pop("schema.sales"))),
    ),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: one.code)
def test_cluster_that_contradicts_itself_is_not_served(root: Path, broken: Broken):
    broken.damage(root)
    with pytest.raises(ClusterStateError) as caught:
        serving(root)
    assert caught.value.details.finding == broken.code
    assert broken.message in caught.value.message


@pytest.mark.parametrize("name", [".DS_Store", "notes.txt", "01ARZ3NDEKTSV4RRFFQ69G5FAV.json.tmp", "old/readme"])
def test_a_stray_file_among_the_sidecars_stops_no_server(root: Path, name: str, caplog):
    stray = root / "__cluster" / "recoveries" / name
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"x")
    before = [graph.graph_id for graph in serving(root).graphs]
    assert before
    assert serving(root).quarantined == ()
    assert name in caplog.text
    assert stray.exists()


def test_every_code_about_serving_has_a_case():
    assert set(SERVING_CODES) - {broken.code for broken in BROKEN} == {"embedding_api_key_unset"}


def test_applied_revision_has_all_that_a_server_needs(root: Path):
    found = serving(root)
    crm, sales = found.graphs
    assert (crm.graph_id, crm.uri) == ("crm", str(root / "graphs" / "crm.omni"))
    assert [(query.name, sorted(query.only or ())) for query in crm.queries] == [
        ("add.gq", ["add"]),
        ("one.gq", ["one"]),
    ]
    assert crm.policy is not None
    assert crm.policy.name == "acl"
    assert found.policy is not None
    assert found.policy.name == "ops"
    assert crm.embedding is not None
    assert (crm.embedding.provider, crm.embedding.model, crm.embedding.api_key) == (
        "openai",
        "small",
        Secret("sk-test"),
    )
    assert (sales.policy, sales.embedding, sales.blob_bases) == (None, None, ("s3://files/",))
    assert [sorted(query.only or ()) for query in sales.queries] == [["one"]]
    assert (found.quarantined, found.revision) == ((), 2)


def test_files_of_the_directory_make_no_difference(root: Path):
    before = serving(root)
    for name in ("crm.pg", "acl.yaml", "gq/people.gq"):
        (root / name).unlink()
    (root / "cluster.yaml").write_text("version: 9\nsurplus: true\n")
    assert serving(Path(find_root(str(root)))) == before


def test_root_that_no_config_tells_is_an_error(tmp_path: Path):
    for text, code in ((None, "cluster_config_read_error"), ("storage: 's3://'\n", "storage_root_invalid")):
        if text is not None:
            (tmp_path / "cluster.yaml").write_text(text)
        with pytest.raises(ClusterStateError) as caught:
            find_root(str(tmp_path))
        assert caught.value.details.finding == code
    assert find_root("s3://acme/atlas") == "s3://acme/atlas"


def quarantined(found: ServingSnapshot) -> list[tuple[str, str]]:
    return [(graph.graph_id, graph.finding.code) for graph in found.quarantined]


def test_graph_without_its_key_is_set_aside(root: Path):
    found = serving(root, OTHER="x")
    assert quarantined(found) == [("crm", "embedding_api_key_unset")]
    assert found.quarantined[0].finding.message == (
        "variable 'VEC_KEY', which holds the key of the embedding provider, is not set"
    )
    assert [graph.graph_id for graph in found.graphs] == ["sales"]
    assert quarantined(serving(root, VEC_KEY="two words")) == [("crm", "embedding_api_key_unset")]


def test_mock_needs_no_key(root: Path):
    found = serving(root, OMNIGRAPH_EMBEDDINGS_MOCK="1").graphs[0].embedding
    assert found is not None
    assert (found.provider, found.model) == ("mock", "small")


def test_graph_that_is_being_changed_is_set_aside(root: Path):
    sidecar(root)
    assert quarantined(serving(root)) == [("crm", "cluster_recovery_pending")]


def test_change_that_the_ledger_knows_is_done(root: Path):
    """A command removes its sidecars after it has written the ledger; a server may look in between."""
    state = json.loads((root / "__cluster" / "state.json").read_text())
    sidecar(root, desired_schema_digest=state["applied_revision"]["resources"]["schema.crm"]["digest"])
    assert quarantined(serving(root)) == []


def test_graph_whose_schema_the_ledger_has_lost_is_set_aside(root: Path):
    resources(lambda found: found.pop("schema.sales"))(root)
    assert quarantined(serving(root)) == [("sales", "graph_not_applied")]


def test_texts_that_are_known_are_not_read_again(root: Path):
    before = serving(root)
    with counting() as first:
        serving(root)
    with counting() as second:
        serving(root, before)
    # Two queries of one graph, one of the other, and two policies.
    assert first.cost().calls["control.get"] - second.cost().calls["control.get"] == 5


def test_stamp_changes_with_every_ledger_and_costs_one_call(root: Path):
    place = ClusterPlace(str(root))
    with counting() as counted:
        before = ledger_stamp(place)
    assert counted.cost().calls == {"control.head": 1}
    assert ledger_stamp(place) == before == serving(root).stamp
    (root / "gq" / "people.gq").write_text("query one() { match { $p: Person } return { $p.name } }\n")
    apply_directory(root)
    assert ledger_stamp(place) != before
    assert ledger_stamp(ClusterPlace(str(root / "nowhere"))) is None
