"""Random query trees that the parser accepts; they need not fit any schema."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    AllProperties,
    Assignment,
    Binding,
    Bm25,
    BooleanLiteral,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Filter,
    FloatLiteral,
    Hops,
    Insert,
    IntegerLiteral,
    ListLiteral,
    MutationBody,
    Nearest,
    Negation,
    Now,
    Ordering,
    Parameter,
    Predicate,
    Projection,
    PropertyAccess,
    PropertyMatch,
    QueryDecl,
    QueryFile,
    ReadBody,
    Rrf,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Update,
    Variable,
)
from omnigraph.lang.gq.builder import BASE_TYPES
from omnigraph.lang.source import Ident

KEYWORDS = (
    *("query", "match", "return", "order", "limit", "not", "as", "asc", "desc", "contains", "starts_with", "insert"),
    *("update", "delete", "set", "where", "now", "nearest", "search", "fuzzy", "match_text", "bm25", "rrf", "count"),
    *("sum", "avg", "min", "max", "date", "datetime", "true", "false", "from", "to"),
)
# Where an expression may start these words mean something else, and before an operator `contains` ends a property.
_NO_ALIASES = {"true", "false", "not", "contains", "starts_with"}
_COMPARISONS = ("=", "!=", ">", "<", ">=", "<=")


def _tuples(items: st.SearchStrategy, *, least: int = 0, most: int = 3) -> st.SearchStrategy[tuple]:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


words = st.from_regex(r"[a-z_][A-Za-z0-9_]{0,8}", fullmatch=True) | st.sampled_from(KEYWORDS)
names = words.map(lambda text: Ident(text=text))
type_names = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,8}", fullmatch=True).map(lambda text: Ident(text=text))
variables = words.map(lambda name: Variable(name=name))
# Surrogates cannot be written as UTF-8, and NUL may stand in no source.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)

types = st.one_of(
    st.builds(TypeRef, scalar=st.sampled_from(BASE_TYPES), nullable=st.booleans(), is_list=st.booleans()),
    st.builds(
        TypeRef,
        scalar=st.just("Decimal"),
        nullable=st.booleans(),
        is_list=st.booleans(),
        precision=st.integers(0, 40),
        scale=st.integers(0, 40),
    ),
    st.builds(TypeRef, scalar=st.just("Vector"), nullable=st.booleans(), dimension=st.integers(0, 2**31)),
)
parameters = st.builds(Parameter, name=words, type=types)

float_literals = st.from_regex(r"[0-9]{1,12}\.[0-9]{1,12}", fullmatch=True).map(
    lambda text: FloatLiteral(value=float(text), text=text)
)
scalars = st.one_of(
    st.builds(StringLiteral, value=texts),
    st.builds(IntegerLiteral, value=st.integers(0, 2**63 - 1)),
    float_literals,
    st.builds(BooleanLiteral, value=st.booleans()),
    st.builds(DateLiteral, text=texts),
    st.builds(DateTimeLiteral, text=texts),
)
literals = st.recursive(scalars, lambda inner: st.builds(ListLiteral, items=_tuples(inner)), max_leaves=4)
values = st.one_of(literals, variables, st.builds(Now))

property_accesses = st.builds(PropertyAccess, variable=variables, property=names)
aliases = words.filter(lambda name: name not in _NO_ALIASES).map(lambda name: AliasRef(name=name))
simple_expressions = st.one_of(variables, property_accesses, literals, aliases, st.builds(Now))


def _calls(argument: st.SearchStrategy) -> st.SearchStrategy:
    rankings = st.builds(Nearest, target=property_accesses, query=argument) | st.builds(
        Bm25, target=argument, query=argument
    )
    return st.one_of(
        rankings,
        st.builds(Rrf, first=rankings, second=rankings, k=st.none() | argument),
        text_searches(argument),
        st.builds(Aggregate, function=st.sampled_from(("count", "sum", "avg", "min", "max")), argument=argument),
    )


def text_searches(argument: st.SearchStrategy) -> st.SearchStrategy[TextSearch]:
    plain = st.sampled_from(("search", "match_text"))
    return st.builds(TextSearch, function=plain, target=argument, query=argument) | st.builds(
        TextSearch, function=st.just("fuzzy"), target=argument, query=argument, max_edits=st.none() | argument
    )


expressions = st.recursive(simple_expressions, _calls, max_leaves=4)

bindings = st.builds(
    Binding,
    variable=variables,
    type_name=type_names,
    predicates=_tuples(st.builds(PropertyMatch, property=names, value=values)),
)
hops = st.builds(Hops, minimum=st.integers(0, 2**32 - 1), maximum=st.none() | st.integers(0, 2**32 - 1))
traversals = st.builds(
    Traversal,
    source=variables,
    edge=names,
    destination=variables,
    edge_variable=st.none() | variables,
    is_undirected=st.booleans(),
    hops=st.none() | hops,
)


def _is_filter(clause: Filter) -> bool:
    # `$a contains $b` is a traversal.
    words_between = clause.op in {"contains", "starts_with"}
    return not (words_between and isinstance(clause.left, Variable) and isinstance(clause.right, Variable))


filters = st.builds(
    Filter, left=expressions, op=st.sampled_from((*_COMPARISONS, "contains", "starts_with")), right=expressions
).filter(_is_filter)
clauses = st.recursive(
    bindings | traversals | filters | text_searches(simple_expressions),
    lambda inner: st.builds(Negation, clauses=_tuples(inner, least=1)),
    max_leaves=4,
)

projections = st.builds(Projection, expression=expressions, alias=st.none() | names) | st.builds(
    Projection, expression=st.builds(AllProperties, variable=variables)
)
orderings = st.builds(Ordering, expression=expressions, direction=st.sampled_from((None, "asc", "desc"))).filter(
    lambda ordering: ordering.direction is None or not isinstance(ordering.expression, Nearest)
)
read_bodies = st.builds(
    ReadBody,
    match=_tuples(clauses, least=1),
    projections=_tuples(projections, least=1, most=4),
    orderings=_tuples(orderings, most=2),
    limit=st.none() | st.integers(0, 2**64 - 1),
)

assignments = _tuples(st.builds(Assignment, property=names, value=values), least=1, most=4)
predicates = st.builds(Predicate, property=names, op=st.sampled_from(_COMPARISONS), value=values)
statements = st.one_of(
    st.builds(Insert, type_name=type_names, assignments=assignments),
    st.builds(Update, type_name=type_names, assignments=assignments, predicate=predicates),
    st.builds(Delete, type_name=type_names, predicate=predicates),
)
mutation_bodies = st.builds(MutationBody, statements=_tuples(statements, least=1))

queries = st.builds(
    QueryDecl,
    name=names,
    body=read_bodies | mutation_bodies,
    parameters=_tuples(parameters),
    description=st.none() | texts,
    instruction=st.none() | texts,
    mcp=st.sampled_from([None, "expose"]),
)
query_files = st.builds(QueryFile, queries=_tuples(queries, most=3))

comment_texts = st.sampled_from(
    [
        "// c\n",
        "//\n",
        "/* b */",
        "/**/",
        "/* two\n   lines */",
        "// \N{SNOWMAN} {[(\n",
        '/* " */',
        "\n\n",
        "\t",
        "\r\n",
    ]
)
