"""Builders of projections as small as they can be: the rows of their tables are counted, and the counts are kept."""

from __future__ import annotations

import numpy as np

from omnigraph.engine.maintenance import projections
from omnigraph.engine.maintenance.projections import adjacency_builder, keys_builder, text_builder
from omnigraph.store.projections.coverage import cover


class FakeBuilders:
    """Counts what it built; ``fails`` is raised instead, once for each table that is built of."""

    def __init__(self):
        self.built = []
        self.fails = None
        self.checks = 0
        # Files with other facts are none of ours.
        self.revision = 1

    def install(self, monkeypatch, *names):
        """Let maintenance build these, and nothing else."""
        makers = {
            "keys": keys_builder(self._keys, lambda facts: facts["revision"] == self.revision),
            "text": text_builder(self._text),
            "adjacency": adjacency_builder(self._adjacency),
        }
        monkeypatch.setattr(projections, "BUILDERS", [makers[name] for name in names])
        return self

    def _keys(self, tables, prop, check):
        yield self._save("keys", "", tables, [["id"]], check)

    def _text(self, tables, prop, check):
        (number,) = (number for number, name in tables[0].fields if name == prop)
        yield self._save("text", str(number), tables, [[prop]], check)

    def _adjacency(self, tables, prop, check):
        columns = [["src", "dst"], ["id"], ["id"]]
        for kind in ("adjacency-out", "adjacency-in"):
            yield self._save(kind, "", tables, columns, check)

    def _save(self, kind, of, tables, columns, check):
        check(0)
        self.checks += 1
        if self.fails is not None:
            raise self.fails
        covered = [cover(table, names) for table, names in zip(tables, columns, strict=True)]
        counts = np.array([table.row_count for table in tables], dtype=np.int64)
        self.built.append((kind, of and tables[0].schema.names[int(of)], tables[0].row_count))
        return tables[0].datasets.projections.save(kind, of, covered, {"counts": counts}, {"revision": self.revision})
