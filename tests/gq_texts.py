"""Generates query texts: every production of the grammar, names like keywords, comments and odd spacing.

Texts are lists of tokens; :func:`joined` puts blanks between them, :func:`commented` comments as well. They parse, but
mean nothing: whoever needs texts that pass the checker has to choose the names.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

Tokens = list[str]

# Keywords of the second edition: all of them were, and are, names.
NEW_KEYWORDS = (
    *(
        "in",
        "and",
        "or",
        "not",
        "is",
        "null",
        "case",
        "when",
        "then",
        "else",
        "end",
        "exists",
        "optional",
        "each",
        "path",
    ),
    *("with", "having", "offset", "per", "union", "all", "nulls", "first", "last", "upsert", "if", "absent", "strict"),
    *("version", "for", "distinct", "matches", "ends_with", "any", "every", "collect", "median"),
)
OLD_KEYWORDS = (
    *("query", "match", "return", "order", "limit", "as", "asc", "desc", "contains", "starts_with", "insert", "update"),
    *(
        "delete",
        "set",
        "where",
        "now",
        "nearest",
        "bm25",
        "rrf",
        "search",
        "match_text",
        "fuzzy",
        "count",
        "sum",
        "avg",
    ),
    *("min", "max", "date", "datetime", "true", "false"),
)
# Between two variables these are conditions now; in the first edition they were edges.
JOINING = ("and", "or", "in", "matches", "ends_with")

plain_names = st.sampled_from(["a", "b1", "name", "worksAt", "_x"])
names = st.one_of(plain_names, st.sampled_from([*NEW_KEYWORDS, *OLD_KEYWORDS]))
type_names = st.sampled_from(["Person", "In", "Null", "P", "Case_1"])
variables = st.sampled_from(["$p", "$q", "$_", "$in", "$null", "$a1"])
strings = st.sampled_from(['"x"', '""', '"// no"', '"a \\" \\\\ \\n"', '"é\U0001f600"'])
integers = st.sampled_from(["0", "7", "0012", "9223372036854775807"])
floats = st.sampled_from(["1.5", "0.0", "12.250"])
compare_ops = st.sampled_from(["=", "!=", ">", "<", ">=", "<="])


def _tokens(*parts: st.SearchStrategy | str) -> st.SearchStrategy:
    """Return parts in a row: words, strategies of one word, strategies of tokens."""
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map(_flat)


def _flat(parts: object) -> Tokens:
    if isinstance(parts, str):
        return [parts] if parts else []
    return [token for part in parts for token in _flat(part)]  # type: ignore[attr-defined] # parts nest


def _maybe(*parts: st.SearchStrategy | str) -> st.SearchStrategy:
    return st.one_of(st.just([]), _tokens(*parts))


def _many(part: st.SearchStrategy, between: str = "", *, least: int = 1, most: int = 3) -> st.SearchStrategy:
    def spread(items: list[object]) -> Tokens:
        return _flat([[item, between] for item in items[:-1]] + items[-1:])

    return st.lists(part, min_size=least, max_size=most).map(spread)


# The first edition

_old_literals = st.recursive(
    st.one_of(
        strings.map(_flat),
        integers.map(_flat),
        floats.map(_flat),
        st.sampled_from([["true"], ["false"]]),
        _tokens(st.sampled_from(["date", "datetime"]), "(", strings, ")"),
    ),
    lambda inner: _tokens("[", _many(inner, ",", least=0), "]"),
    max_leaves=4,
)
_properties = _tokens(variables, ".", names)
_old_values = st.one_of(_old_literals, variables.map(_flat), _tokens("now", "(", ")"))
_old_leaves = st.one_of(_old_values, _properties)
_old_nearest = _tokens("nearest", "(", _properties, ",", _old_leaves, ")")
_old_bm25 = _tokens("bm25", "(", _old_leaves, ",", _old_leaves, ")")
_old_rankings = st.one_of(_old_nearest, _old_bm25)
_old_rrf = _tokens("rrf", "(", _old_rankings, ",", _old_rankings, _maybe(",", _old_leaves), ")")
_old_searches = st.one_of(
    _tokens(st.sampled_from(["search", "match_text"]), "(", _old_leaves, ",", _old_leaves, ")"),
    _tokens("fuzzy", "(", _old_leaves, ",", _old_leaves, _maybe(",", _old_leaves), ")"),
)
_old_aggregates = _tokens(st.sampled_from(["count", "sum", "avg", "min", "max"]), "(", _old_leaves, ")")
_old_expressions = st.one_of(_old_leaves, _old_rankings, _old_rrf, _old_searches, _old_aggregates)
_hops = _tokens("{", st.sampled_from(["1", "2"]), ",", st.sampled_from(["", "3"]), "}")
_edges = names.filter(lambda name: name not in JOINING)
_old_traversals = st.one_of(
    _tokens(variables, _edges, _maybe(_hops), variables),
    _tokens(variables, names, _hops, variables),
    _tokens(variables, "<", names, ">", _maybe(_hops), variables),
    _tokens(variables, variables, ":", names, _maybe(_hops), variables),
    _tokens(variables, variables, ":", "<", names, ">", _maybe(_hops), variables),
)
_old_bindings = st.one_of(
    _tokens(variables, ":", type_names),
    _tokens(variables, ":", type_names, "{", _many(_tokens(names, ":", _old_values), ",", least=0), "}"),
)
_old_filters = _tokens(
    st.one_of(_old_literals, _properties, _old_aggregates),
    st.one_of(compare_ops, st.sampled_from(["contains", "starts_with"])),
    _old_expressions,
)
_old_clauses = st.recursive(
    st.one_of(_old_bindings, _old_traversals, _old_filters, _old_searches),
    lambda inner: _tokens("not", "{", _many(inner), "}"),
    max_leaves=4,
)
_aliases = _maybe("as", names)
_old_projections = _tokens(st.one_of(_old_expressions, _tokens(variables, ".", "*")), st.just(""))
_old_aliased = _tokens(_old_expressions, _aliases)
_old_orderings = st.one_of(
    _tokens(st.one_of(_old_leaves, names.map(_flat)), st.sampled_from(["", "asc", "desc"])), _old_nearest, _old_rrf
)
old_reads = _tokens(
    *("match", "{", _many(_old_clauses), "}"),
    *("return", "{", _many(st.one_of(_old_projections, _old_aliased), ","), st.sampled_from(["", ","]), "}"),
    _maybe("order", "{", _many(_old_orderings, ","), "}"),
    _maybe("limit", st.sampled_from(["0", "10"])),
)
_commas = st.sampled_from(["", ","])
_old_assignments = _many(_tokens(names, ":", _old_values, _commas))
_old_predicates = _tokens(names, compare_ops, _old_values)
old_mutations = _many(
    st.one_of(
        _tokens("insert", type_names, "{", _old_assignments, "}"),
        _tokens("update", type_names, "set", "{", _old_assignments, "}", "where", _old_predicates),
        _tokens("delete", type_names, "where", _old_predicates),
    )
)
_types = st.sampled_from(["String", "I64?", "[F64]", "[Date]?", "Vector(3)", "Vector(3)?", "Blob", "DateTime"])
_parameters = _many(_tokens(variables.filter(lambda name: name != "$_"), ":", _types), ",", least=0, most=2)
_annotations = _tokens(_maybe("@description", "(", strings, ")"), _maybe("@instruction", "(", strings, ")"))


def _files(*bodies: st.SearchStrategy) -> st.SearchStrategy:
    return _many(_tokens("query", names, "(", _parameters, ")", _annotations, "{", st.one_of(*bodies), "}"), most=2)


_first_edition = _files(old_reads, old_mutations)


# The second edition: whatever is an expression may stand where one may.

_literals = st.one_of(
    _old_literals,
    st.sampled_from([["null"], ["-3"], ["1e9"], ["-2.5E-3"], ["'x'"], ["'it // \"s\"'"]]),
)
_soft_names = names.filter(lambda name: name not in {"true", "false", "null"})
_functions = st.sampled_from(["lower", "coalesce", "today", "round", "in_days", "type"])
_binary = st.sampled_from(["+", "-", "*", "/", "%"])
# A condition on the edges of a walk by one of these needs a variable for the edge.
_plain_edges = _edges.filter(lambda name: name not in {"contains", "starts_with"})
_condition_ops = st.one_of(
    compare_ops, st.sampled_from(["in", "not in", "contains", "starts_with", "ends_with", "matches"])
)


def _grouped(inner: st.SearchStrategy) -> st.SearchStrategy:
    return _tokens("(", inner, ")")


def _composed(inner: st.SearchStrategy) -> st.SearchStrategy:
    held = st.one_of(_grouped(inner), _properties, _literals)
    aggregates = st.sampled_from(["count", "sum", "sum_int", "avg", "collect", "median", "any", "every", "stddev"])
    clauses = _many(_clauses_over(inner), most=2)
    return st.one_of(
        _tokens(held, _binary, held, _binary, held),
        _tokens(held, _condition_ops, held),
        _tokens(held, st.sampled_from(["is null", "is not null"])),
        _tokens(held, st.sampled_from(["and", "or"]), held, st.sampled_from(["and", "or"]), held),
        _tokens("not", held),
        _tokens("-", held),
        _tokens(st.builds("{}(".format, _functions), _many(inner, ",", least=0), ")"),
        _tokens(st.builds("{}[".format, st.sampled_from(["$p", "$p.tags", "a"])), inner, "]"),
        _tokens("[", _many(inner, ","), "]"),
        _tokens(aggregates, "(", st.sampled_from(["", "distinct"]), held, _maybe("where", inner), ")"),
        _tokens("count", "(", "*", ")"),
        _tokens("percentile", "(", inner, ",", held, ")"),
        _tokens("case", _many(_tokens("when", inner, "then", inner)), _maybe("else", inner), "end"),
        _tokens(st.sampled_from(["exists", "not", "count"]), "{", clauses, "}"),
        _tokens("nearest", "(", _properties, ",", inner, ")"),
        _tokens("bm25", "(", inner, ",", inner, ")"),
        _tokens("fuzzy", "(", inner, ",", inner, _maybe(",", inner), ")"),
    )


def _clauses_over(inner: st.SearchStrategy) -> st.SearchStrategy:
    walks = st.one_of(
        _tokens(variables, _plain_edges, _maybe("|", names), _maybe(_hops), variables, _maybe("where", inner)),
        _tokens(variables, "<", names, _maybe("|", names), ">", _maybe(_hops), variables, _maybe("where", inner)),
        _tokens(variables, variables, ":", names, _maybe("|", names), _maybe(_hops), variables, _maybe("where", inner)),
        _tokens(variables, variables, ":", "<", names, ">", variables),
    )
    return st.one_of(
        _old_bindings,
        _tokens(variables, ":", type_names, "{", _many(_tokens(names, ":", inner), ","), "}"),
        walks,
        _tokens("path", st.sampled_from(["", "all"]), variables, ":", walks),
        _tokens("each", variables, "in", inner),
        _tokens(_grouped(inner), _condition_ops, _grouped(inner)),
        _tokens(_properties, compare_ops, _grouped(inner)),
        _tokens("(", inner, "or", inner, ")"),
    )


expressions = st.recursive(
    st.one_of(_literals, _properties, variables.map(_flat), _tokens("now", "(", ")"), _soft_names.map(_flat)),
    _composed,
    max_leaves=6,
)
"""Expressions of the second edition, as lists of tokens; a bare name may be any keyword."""

_values = st.one_of(expressions.map(lambda tokens: tokens if len(tokens) == 1 else ["(", *tokens, ")"]), expressions)
clauses = st.recursive(
    _clauses_over(_values),
    lambda inner: _tokens(st.sampled_from(["not", "optional", "exists"]), "{", _many(inner), "}"),
    max_leaves=3,
)
_amounts = st.sampled_from(["0", "10", "$n"])
_projections = _many(
    st.one_of(_tokens(_values, "as", names), _tokens(variables, ".", "*"), _tokens(_grouped(expressions), _aliases)),
    ",",
)
_orderings = _tokens(
    _grouped(expressions), st.sampled_from(["", "asc", "desc"]), st.sampled_from(["", "nulls first", "nulls last"])
)
_tails = _tokens(
    _maybe("order", "{", _many(_orderings, ","), "}"),
    _maybe("offset", _amounts),
    _maybe("limit", _amounts, _maybe("per", "{", _many(expressions, ","), "}")),
)
_outputs = _tokens(st.sampled_from(["", "distinct"]), "{", _projections, "}", _maybe("having", expressions))
_matches = _tokens("match", "{", _many(clauses), "}")
_stages = _tokens("with", _outputs, _tails, _maybe(_matches))
_read_queries = _tokens(_matches, _many(_stages, least=0, most=2), "return", _outputs)
reads = _tokens(
    _read_queries, _many(_tokens("union", st.sampled_from(["", "all"]), _read_queries), least=0, most=2), _tails
)
_assignments = _many(_tokens(names, ":", _values, ","))
_for_each = _maybe("for", "each", _many(variables, ","))
_versions = _maybe("if", "version", "=", st.sampled_from(["3", "$v"]))
_statements = st.one_of(
    _tokens("insert", type_names, "{", _assignments, "}", st.sampled_from(["", "if absent", "strict"]), _for_each),
    _tokens("upsert", type_names, "{", _assignments, "}", _for_each),
    _tokens("update", type_names, "set", "{", _assignments, "}", "where", expressions, _versions),
    _tokens("update", variables, "set", "{", _assignments, "}", _versions),
    _tokens("delete", type_names, "where", expressions, _versions),
    _tokens("delete", _many(variables, ","), _versions),
)
mutations = _tokens(_maybe(_matches), _many(_statements), _maybe("return", "{", _projections, "}"))

_second_edition = _files(reads, mutations)


@st.composite
def first_edition(draw: Callable[[st.SearchStrategy], Tokens]) -> Tokens:
    """Return a file of the first edition."""
    return draw(_first_edition)


@st.composite
def second_edition(draw: Callable[[st.SearchStrategy], Tokens]) -> Tokens:
    """Return a file of the second edition."""
    return draw(_second_edition)


def joined(tokens: Tokens) -> str:
    """Return a text of tokens with a blank between any two, but for a bracket that has to touch what is before it."""
    return " ".join(tokens)


comments = st.sampled_from(["// c\n", "/* c */", "/* two\n lines */", "\n\n", "\n"])


@st.composite
def commented(draw: Callable[[st.SearchStrategy], Tokens], files: st.SearchStrategy) -> str:
    """Return the text of a file with comments and line breaks among its tokens."""
    pieces: list[str] = []
    for token in draw(files):
        pieces += [*draw(st.lists(comments, max_size=1)), token, " "]
    return "".join([*pieces, *draw(st.lists(comments, max_size=2))])
