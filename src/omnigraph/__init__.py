"""omnigraph: a typed property-graph database on open Lance tables."""

__version__ = "0.1.0"

__all__ = ["__version__"]
