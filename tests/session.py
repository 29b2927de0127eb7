"""A graph asked by requests, in as few words as tests like: ``session.mutate(text, params)`` executes a request."""

from __future__ import annotations

from dataclasses import fields

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.operations import Attachments, all_operations
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.local.reads import export_cut

_OPERATIONS = all_operations()
# What accompanies a request instead of being part of it.
_ATTACHED = tuple(one.name for one in fields(Attachments))
# Fields that callers give by position, where that is not simply the order of the declaration.
_POSITIONS = {
    "query": ("text", "params", "name"),
    "explain": ("text", "params", "name"),
    "export_stream": ("sink",),
}


class Session:
    """An open graph whose methods are the operations; everything else is the engine's."""

    def __init__(self, engine, mode="read_write"):
        self.backend = LocalBackend(engine, mode)
        self.engine = engine

    @classmethod
    def open(cls, storage, *, mode="read_write", **options):
        return cls(OpenGraph.open(storage, mode=mode, **options), mode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.backend.close()

    def snapshot(self, branch="main"):
        return self.engine.snapshot(branch)

    def prepare(self, call):
        return self.engine.reads.prepare(call)

    def export_cut(self, *arguments):
        return export_cut(self.engine, *arguments)

    def __getattr__(self, name):
        declared = _OPERATIONS.get(name)
        if declared is None:
            return getattr(self.engine, name)

        def call(*given, **named):
            order = _POSITIONS.get(name) or [one.name for one in fields(declared)]
            named = {**dict(zip(order, given, strict=False)), **named}
            attached = {key: named.pop(key) for key in _ATTACHED if key in named}
            request = declared(**named)
            return self.backend.execute(request, Attachments(**attached))

        return call
