"""omnigraph: a typed property-graph database on open Lance tables.

``omnigraph.init`` creates a graph, ``omnigraph.open`` opens one; everything else is a method of what they return.
"""

# The names of the list below come from the star, which the linter does not follow.
# ruff: noqa: F405

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.errors import OmnigraphError
    from omnigraph.graph import *  # noqa: F403 - for type checkers alone, who know what it brings

__version__ = "0.1.0"

__all__ = [
    "Branch",
    "ClientSettings",
    "Commit",
    "Dialect",
    "Diff",
    "EmbeddingSettings",
    "ExportSettings",
    "ExternalBlobs",
    "Feed",
    "Graph",
    "LoadSettings",
    "Log",
    "MaintenanceSettings",
    "OmnigraphError",
    "PageLimits",
    "Proposal",
    "QueryOptions",
    "Result",
    "Schema",
    "SchemaProposal",
    "Snapshot",
    "Source",
    "Transaction",
    "TxnSettings",
    "__version__",
    "infer_schema",
    "init",
    "open",
]


def __getattr__(name: str) -> Any:
    # What people hold needs Arrow and Lance, and importing the package has to stay instant.
    if name in __all__:
        return getattr(import_module(f"{__name__}.{'errors' if name.endswith('Error') else 'graph'}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return __all__
