"""Policy bundles of a config: what they apply to, and whether they compile for that."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.cluster.config.files import read_named
from omnigraph.cluster.config.section import ConfigSection
from omnigraph.cluster.declaration import CLUSTER, DeclaredPolicy, graph_address
from omnigraph.cluster.digests import file_digest
from omnigraph.errors import DiagnosticError, PolicyFormatError, SourceEncodingError, SourceTooLargeError
from omnigraph.policy.bundle import BundleKind, parse_bundle
from omnigraph.policy.policy import BundlePolicy

KEYS = ("file", "applies_to")
_GRAPH = "graph."


def read_policies(root: ConfigSection, graphs: Collection[str]) -> dict[str, DeclaredPolicy]:
    """Return the bundles of a config by name, without those that cannot be used; ``graphs`` are those it names."""
    found: dict[str, DeclaredPolicy] = {}
    bound: dict[str, str] = {}
    for name, section in root.sections("policies", KEYS).items():
        targets = _targets(section, name, graphs)
        for target in targets:
            if target in bound:
                message = f"policies '{bound[target]}' and '{name}' both apply to {_shown(target)}"
                section.add("duplicate_policy_binding", message, "applies_to")
            bound.setdefault(target, name)
        policy = _policy(section, name, targets)
        if policy is not None:
            found[name] = policy
    return found


def _targets(section: ConfigSection, name: str, graphs: Collection[str]) -> tuple[str, ...]:
    listed = section.texts("applies_to")
    if not listed:
        node = section.get("applies_to")
        if node is None or node.value == ():
            message = f"policy '{name}' has no applies_to: name graphs, or {CLUSTER}"
            section.add("policy_missing_applies_to", message, "applies_to")
        return ()
    found: set[str] = set()
    for written, place in listed:
        target = written if written == CLUSTER else graph_address(written.removeprefix(_GRAPH))
        if "." in target.removeprefix(_GRAPH):
            message = f"policy '{name}' applies to '{written}', which is not a graph"
            section.folder.findings.add("wrong_kind_reference", place, message)
        elif target != CLUSTER and target.removeprefix(_GRAPH) not in graphs:
            message = f"policy '{name}' applies to graph '{target.removeprefix(_GRAPH)}', which is not declared"
            section.folder.findings.add("dangling_graph_reference", place, message)
        else:
            found.add(target)
    if CLUSTER in found and len(found) > 1:
        message = f"policy '{name}' applies to the {CLUSTER} and to graphs; use a bundle for each"
        section.add("policy_mixed_binding_kinds", message, "applies_to")
        return ()
    return tuple(sorted(found))


def _policy(section: ConfigSection, name: str, targets: tuple[str, ...]) -> DeclaredPolicy | None:
    path = section.text("file")
    if path is None:
        if section.get("file") is None:
            section.add("invalid_cluster_yaml", f"policy '{name}' has no file")
        return None
    file = section.folder.resolve(path)
    data = read_named(file)
    if isinstance(data, str):
        section.add("policy_file_missing", f"cannot read '{path}' of policy '{name}': {data}", "file")
        return None
    _compile(section, path, data, targets)
    return DeclaredPolicy(name=name, path=path, file=file, data=data, digest=file_digest(data), applies_to=targets)


def _compile(section: ConfigSection, path: str, data: bytes, targets: tuple[str, ...]) -> None:
    kind = None if not targets else BundleKind.SERVER if targets == (CLUSTER,) else BundleKind.GRAPH
    try:
        BundlePolicy(parse_bundle(data, path, kind))
    except (PolicyFormatError, SourceEncodingError, SourceTooLargeError) as problem:
        place = problem.details.place if isinstance(problem, DiagnosticError) else None
        where = f"{path}:{1 if place is None else place.line}"
        section.folder.findings.add("policy_invalid", where, problem.message)


def _shown(target: str) -> str:
    return f"the {CLUSTER}" if target == CLUSTER else f"graph '{target.removeprefix(_GRAPH)}'"
