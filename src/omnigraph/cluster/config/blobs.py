"""Which external blobs a graph of a config takes in."""

from __future__ import annotations

from omnigraph.cluster.config.section import ConfigSection
from omnigraph.cluster.declaration import BlobBase, BlobPolicy, BlobScope
from omnigraph.engine.external_blobs import ExternalBlobs, shown_address
from omnigraph.errors import UsageError

_FILE = "file:"


def read_blobs(graph: ConfigSection) -> BlobPolicy:
    """Return the policy of a graph: its bases in order, each with a slash at its end. Without any, it denies."""
    section = graph.section("external_blobs", ("allow",))
    bases: dict[str, BlobBase] = {}
    for item in section.items("allow", ("base", "scope")):
        base = _base(item)
        if base is None:
            continue
        try:
            ExternalBlobs(bases=(*bases, base.uri))
        except UsageError as problem:
            item.add("invalid_external_blob_policy", problem.message, "base")
            continue
        bases[base.uri] = base
    return BlobPolicy(bases=tuple(bases[uri] for uri in sorted(bases)))


def _base(item: ConfigSection) -> BlobBase | None:
    written, scope = item.text("base"), item.text("scope")
    if written is None:
        item.add("invalid_external_blob_base", f"{item.name} has no base")
        return None
    uri = f"{written.rstrip('/')}/"
    try:
        ExternalBlobs(bases=(uri,))
    except UsageError as problem:
        item.add("invalid_external_blob_base", problem.message, "base")
        return None
    if scope not in tuple(BlobScope):
        known = " or ".join(BlobScope)
        message = f"base '{shown_address(uri)}' needs a scope: {known}"
        item.add("invalid_external_blob_policy", message, "scope")
        return None
    if uri.lower().startswith(_FILE) and scope != BlobScope.EMBEDDED_ONLY:
        message = f"base '{shown_address(uri)}' is a local folder, which can only be {BlobScope.EMBEDDED_ONLY}"
        item.add("invalid_external_blob_policy", message, "scope")
        return None
    return BlobBase(uri=uri, scope=BlobScope(scope))
