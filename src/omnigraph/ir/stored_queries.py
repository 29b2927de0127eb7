"""Stored queries: the declarations that are invoked by name, checked against a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.errors import BadValue, MissingThing, StoredQueryMissingError, UsageError
from omnigraph.ir.compile import compile_query
from omnigraph.ir.descriptor import kind_fields
from omnigraph.ir.parameters import parameter_types
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import QueryDecl
from omnigraph.records import record


@record
class StoredQuery:
    """A declaration of a file, with the text of the whole file."""

    name: str
    text: str
    source_name: str
    declared: QueryDecl

    @property
    def is_mutation(self) -> bool:
        """Whether invoking it changes the graph."""
        return self.declared.is_mutation

    def to_json(self) -> dict[str, Any]:
        """Return ``QueryCatalogEntry``."""
        told = {"description": self.declared.description, "instruction": self.declared.instruction}
        return {
            "name": self.name,
            "tool_name": self.name,
            **{name: text for name, text in told.items() if text is not None},
            "mutation": self.is_mutation,
            "params": [
                {"name": item.name, **kind_fields(item.type), "nullable": item.type.nullable}
                for item in parameter_types(self.declared.parameters)
            ],
        }


class StoredQueries:
    """The stored queries of one graph, by name."""

    def __init__(self, queries: Mapping[str, StoredQuery]) -> None:
        self._queries = MappingProxyType(dict(sorted(queries.items())))

    @classmethod
    def check(cls, files: Mapping[str, str], catalog: Catalog) -> StoredQueries:
        """Parse every file and check every declaration against a schema.

        Raises:
            QuerySyntaxError, QueryTypeError, QueryMeaningError: a declaration is not a query of this schema.
            UsageError: two declarations have the same name.
        """
        found: dict[str, StoredQuery] = {}
        for source_name, text in files.items():
            for declared in parse_queries(text, source_name).queries:
                name = declared.name.text
                if name in found:
                    details = BadValue(what="query", value=name, expected="each name once")
                    raise UsageError(f"query '{name}' is declared in two places", details=details)
                compile_query(text, name, catalog, source_name)
                found[name] = StoredQuery(name=name, text=text, source_name=source_name, declared=declared)
        return cls(found)

    def __iter__(self) -> Iterator[StoredQuery]:
        return iter(self._queries.values())

    def __len__(self) -> int:
        return len(self._queries)

    def get(self, name: str) -> StoredQuery:
        """Return a query.

        Raises:
            StoredQueryMissingError: there is none of that name. The same is raised where one is hidden.
        """
        found = self._queries.get(name)
        if found is None:
            raise hidden_query(name)
        return found


def hidden_query(name: str) -> StoredQueryMissingError:
    """Return the error for a query that is not there, or that the caller may not know of."""
    return StoredQueryMissingError("stored query not found", details=MissingThing(what="stored query", name=name))
