"""``read_cluster``: the directory of a cluster as a declaration, with everything that is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.cluster.config.files import read_named
from omnigraph.cluster.config.graphs import read_graphs
from omnigraph.cluster.config.policies import read_policies
from omnigraph.cluster.config.providers import declared_providers, read_providers
from omnigraph.cluster.config.section import ConfigFolder, ConfigSection
from omnigraph.cluster.declaration import CONFIG_FILE, ClusterDeclaration
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.digests import config_digest
from omnigraph.errors import DiagnosticError, SourceTooLargeError, ValueFormatError
from omnigraph.lang.document import DUPLICATE_KEY, Document, parse_document
from omnigraph.records import record
from omnigraph.store.location import Storage

VERSION = 1
KEYS = ("version", "metadata", "storage", "state", "providers", "graphs", "policies")
RESERVED = ("apply", "env_file", "pipelines", "embeddings", "ui", "aliases", "bindings")
"""Keys that later versions may give a meaning."""
BACKEND = "cluster"


@record
class ClusterReading:
    """What came of reading a directory.

    Args:
        config_dir: the directory, as it was named.
        declaration: what it declares; None if its config cannot be read at all. With errors among the findings, it
            lacks what they are about, and nothing but reports should be made of it.
        findings: what was found.
    """

    config_dir: str
    declaration: ClusterDeclaration | None
    findings: Findings


def read_cluster(config_dir: str) -> ClusterReading:
    """Read and check the directory of a cluster. Nothing that it holds raises; only files are looked at."""
    findings = Findings()
    document = _parse(Path(config_dir), findings)
    declaration = None
    if document is not None and document.root is not None:
        declaration = _declaration(
            config_dir, ConfigFolder(path=Path(config_dir), document=document, findings=findings)
        )
    return ClusterReading(config_dir=config_dir, declaration=declaration, findings=findings)


def read_storage_root(config_dir: str) -> ClusterReading:
    """Read only what tells where a cluster lives, for those who go by what has been applied.

    The declaration has no graphs, policies and providers; nothing is said of them, nor of keys that are not known.
    """
    findings = Findings()
    document = _parse(Path(config_dir), findings)
    if document is None or document.root is None:
        return ClusterReading(config_dir=config_dir, declaration=None, findings=findings)
    folder = ConfigFolder(path=Path(config_dir), document=document, findings=findings)
    root = ConfigSection(folder, document.root, "", None)
    declaration = ClusterDeclaration(
        config_dir=config_dir,
        config_file=str(Path(config_dir) / CONFIG_FILE),
        storage_root=_storage_root(root),
        config_digest="",
    )
    return ClusterReading(config_dir=config_dir, declaration=declaration, findings=findings)


def _parse(directory: Path, findings: Findings) -> Document | None:
    if not directory.is_dir():
        findings.add("config_dir_not_found", str(directory), f"directory '{directory}' was not found")
        return None
    data = read_named(directory / CONFIG_FILE)
    if isinstance(data, str):
        findings.add("cluster_config_read_error", CONFIG_FILE, f"cannot read '{directory / CONFIG_FILE}': {data}")
        return None
    try:
        document = parse_document(data, CONFIG_FILE)
    except (DiagnosticError, SourceTooLargeError) as problem:
        details = problem.details if isinstance(problem, DiagnosticError) else None
        line = 1 if details is None or details.place is None else details.place.line
        is_double = details is not None and details.rule == DUPLICATE_KEY
        code = "duplicate_yaml_key" if is_double else "invalid_cluster_yaml"
        findings.add(code, f"{CONFIG_FILE}:{line}", problem.message)
        return None
    if document.root is None:
        findings.add("invalid_cluster_yaml", f"{CONFIG_FILE}:1", "the config is empty")
    return document


def _declaration(config_dir: str, folder: ConfigFolder) -> ClusterDeclaration:
    document = folder.document
    root = ConfigSection(folder, document.root, "", (*KEYS, *RESERVED))
    for key in RESERVED:
        if root.has(key):
            root.add("future_phase_field", f"'{key}' is reserved for a later version; remove it", key)
    _check_version(root)
    storage_root = _storage_root(root)
    lock_enabled = _lock_enabled(root)
    providers = read_providers(root)
    graphs = read_graphs(root, storage_root, providers, declared_providers(root))
    policies = read_policies(root, root.section("graphs").names())
    found = ClusterDeclaration(
        config_dir=config_dir,
        config_file=str(folder.path / CONFIG_FILE),
        storage_root=storage_root,
        lock_enabled=lock_enabled,
        name=_label(root),
        graphs=graphs,
        policies=policies,
        providers=providers,
        config_digest="",
    )
    return _digested(found, None if document.root is None else document.root.plain())


def _digested(declaration: ClusterDeclaration, parsed: Any) -> ClusterDeclaration:
    return replace(declaration, config_digest=config_digest(parsed, declaration.resource_digests))


def _check_version(root: ConfigSection) -> None:
    node = root.get("version")
    if node is None:
        root.add("invalid_cluster_yaml", f"version is missing; begin with `version: {VERSION}`", "version")
    elif isinstance(node.value, bool) or node.value != VERSION:
        shown = str(node.value)[:100] if isinstance(node.value, str | int | float) else "not a number"
        message = f"version {shown} is not supported; expected {VERSION}"
        root.add("unsupported_cluster_config_version", message, "version")


def _label(root: ConfigSection) -> str | None:
    section = root.section("metadata", ("name",))
    node = section.get("name")
    if section.has("name") and (node is None or (isinstance(node.value, str) and not node.value.strip())):
        section.add("empty_metadata_name", "metadata.name is empty; set it or leave it out", "name")
        return None
    return section.text("name")


def _storage_root(root: ConfigSection) -> str:
    here = Storage.open(root.folder.path).root
    node = root.get("storage")
    if node is None:
        if root.has("storage"):
            root.add("invalid_storage_root", "storage is empty; leave it out or name a storage root", "storage")
        return here
    if not isinstance(node.value, str) or not node.value.strip():
        root.add("invalid_storage_root", "storage is not the address of a storage root", "storage")
        return here
    written = node.value.strip()
    try:
        return Storage.open(written if "://" in written else root.folder.path / written).root
    except ValueFormatError as problem:
        hint = "expected a path or s3://bucket/prefix"
        root.add("storage_root_invalid", f"storage: {problem.message}; {hint}", "storage")
        return here


def _lock_enabled(root: ConfigSection) -> bool:
    section = root.section("state", ("backend", "lock"))
    node = section.get("backend")
    if node is not None and node.value != BACKEND:
        message = f"state.backend is not supported; it can only be '{BACKEND}'"
        section.add("unsupported_state_backend", message, "backend")
    return section.flag("lock", default=True)
