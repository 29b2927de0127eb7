"""From text to plan in one call, and a cache so that a repeated query pays for it once."""

from __future__ import annotations

from operator import itemgetter

from omnigraph.catalog.model import Catalog
from omnigraph.errors import BadValue, UsageError, WrongQueryKindError
from omnigraph.ir.check import CheckedQuery, check_query
from omnigraph.ir.descriptor import OperationDescriptor, describe_operation
from omnigraph.ir.lower import lower_query
from omnigraph.ir.model import MutationPlan, Plan, ReadPlan
from omnigraph.lang.gq import ast, parse_queries, select_query
from omnigraph.lang.source import SourceText
from omnigraph.records import record
from omnigraph.runtime import LRUCache
from omnigraph.values import check_instance

_MAX_TEXT = 4 << 20


@record
class CompiledQuery:
    """A declaration with everything that is known of it before any data is looked at."""

    decl: ast.QueryDecl
    checked: CheckedQuery
    plan: Plan
    descriptor: OperationDescriptor


def compile_query(text: str | bytes, name: str | None, catalog: Catalog, source_name: str = "<query>") -> CompiledQuery:
    """Parse, select, check and lower.

    Args:
        text: a whole ``.gq`` source.
        name: the declaration to compile; None if the source holds exactly one.
        catalog: the accepted schema.
        source_name: what errors call the source.

    Raises:
        QuerySyntaxError: the text is not a query file.
        QueryNotFoundError: no such declaration, or no name although there are several.
        QueryTypeError: the query does not fit the schema.
        QueryMeaningError: it fits, and yet asks for something that means nothing.
        SourceEncodingError: the text is not UTF-8.
        SourceTooLargeError: the text is larger or nested more deeply than the limits.
    """
    file = parse_queries(text, source_name)
    return compile_declaration(select_query(file, name), catalog, file.source)


def compile_declaration(decl: ast.QueryDecl, catalog: Catalog, source: SourceText) -> CompiledQuery:
    """Check and lower a declaration that was parsed from a source.

    Raises:
        QueryTypeError: the query does not fit the schema.
        QueryMeaningError: it fits, and yet asks for something that means nothing.
    """
    checked = check_query(decl, catalog, source)
    return CompiledQuery(decl=decl, checked=checked, plan=lower_query(checked), descriptor=describe_operation(checked))


def expect_read(query: CompiledQuery) -> ReadPlan:
    """Return the plan of a read.

    Raises:
        WrongQueryKindError: the query is a mutation.
    """
    if isinstance(query.plan, ReadPlan):
        return query.plan
    raise _wrong_kind(query, expected="read", found="mutation")


def expect_mutation(query: CompiledQuery) -> MutationPlan:
    """Return the plan of a mutation.

    Raises:
        WrongQueryKindError: the query is a read.
    """
    if isinstance(query.plan, MutationPlan):
        return query.plan
    raise _wrong_kind(query, expected="mutation", found="read")


class PlanCache:
    """Compiled queries by text, name and schema; the least recently used one makes room. Safe to share by threads.

    A plan takes some forty times the memory of its text, so the texts are bounded together as well as counted.
    """

    def __init__(self, max_entries: int = 256, max_text: int = _MAX_TEXT) -> None:
        if max_entries < 1:
            details = BadValue(what="max_entries", value=str(max_entries), expected="at least 1")
            raise UsageError(f"a plan cache holds at least one entry, not {max_entries}", details=details)
        self._entries: LRUCache[tuple[str | bytes, str | None, str], tuple[int, CompiledQuery]] = LRUCache(
            max_entries, max_size=max_text, size_of=itemgetter(0)
        )

    def __len__(self) -> int:
        return len(self._entries)

    def compile(
        self, text: str | bytes, name: str | None, catalog: Catalog, source_name: str = "<query>"
    ) -> CompiledQuery:
        """Return the compiled query, from the cache if it is there; raises what :func:`compile_query` does."""
        check_instance("query name", name, str)
        key = (text, name, catalog.shape_hash)
        _, found = self._entries.get(key) or (0, None)
        # The hash ignores the order of properties, on which a plan depends through ``$x.*``.
        if found is not None and (found.checked.catalog is catalog or found.checked.catalog == catalog):
            return found
        # Two threads may compile one text at once; both plans are equal, and neither waits for the other.
        compiled = compile_query(text, name, catalog, source_name)
        self._entries.put(key, (len(text), compiled))
        return compiled


def _wrong_kind(query: CompiledQuery, *, expected: str, found: str) -> WrongQueryKindError:
    name = query.decl.name.text
    details = BadValue(what="query kind", value=found, expected=expected)
    verb = "mutate" if found == "mutation" else "query"
    hint = f"run a {found} with `{verb}` (on the command line: `omnigraph {verb}`)"
    return WrongQueryKindError(f"query '{name}' is a {found}, not a {expected}", details=details, hint=hint)
