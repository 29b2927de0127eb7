"""Random schema trees that the parser accepts; their names need not agree with each other."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.lang.pg.ast import (
    Annotation,
    Cardinality,
    Constraint,
    EdgeDecl,
    InterfaceDecl,
    Literal,
    NodeDecl,
    Property,
    RangeBound,
    SchemaFile,
    TypeRef,
)
from omnigraph.lang.pg.builder import CONSTRAINT_NAMES, MAX_CARDINALITY, MAX_VECTOR_DIMENSION, RESERVED_ON_EDGES
from omnigraph.lang.source import Ident

KEYWORDS = ("node", "edge", "interface", "implements", "enum", "type", "date", "when", "true", "false", "card", "key")
SCALARS = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date")


def _ident(text: str) -> Ident:
    return Ident(text=text)


type_names = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,8}", fullmatch=True).map(_ident)
names = st.from_regex(r"[a-z_][A-Za-z0-9_]{0,8}", fullmatch=True) | st.sampled_from(KEYWORDS)
property_names = names.filter(lambda name: name not in RESERVED_ON_EDGES).map(_ident)
# Surrogates cannot be written as UTF-8, and NUL may stand in no source.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
integers = st.integers(0, (1 << 64) - 1)
floats = st.floats(min_value=0, allow_nan=False, allow_infinity=False).filter(lambda value: str(value)[0] != "-")


def _literal(value: str | float) -> Literal:
    return Literal(value=value)


literals = (texts | integers | floats | st.booleans()).map(_literal)
signed = (st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(-1e18, 1e300)).map(_literal)

enum_values = st.lists(
    (st.from_regex(r"[A-Za-z0-9_-]{1,14}", fullmatch=True) | texts.filter(bool)).map(_ident),
    min_size=1,
    max_size=12,
    unique=True,
)


@st.composite
def types(draw: st.DrawFn) -> TypeRef:
    nullable = draw(st.booleans())
    match draw(st.sampled_from(["scalar", "list", "vector", "enum", "decimal"])):
        case "decimal":
            precision = draw(st.integers(1, 38))
            scale, is_list = draw(st.integers(0, precision)), draw(st.booleans())
            return TypeRef(scalar="Decimal", precision=precision, scale=scale, is_list=is_list, nullable=nullable)
        case "list":
            return TypeRef(scalar=draw(st.sampled_from(SCALARS)), is_list=True, nullable=nullable)
        case "vector":
            return TypeRef(scalar="Vector", dimension=draw(st.integers(1, MAX_VECTOR_DIMENSION)), nullable=nullable)
        case "enum":
            return TypeRef(scalar="enum", enum_values=tuple(draw(enum_values)), nullable=nullable)
        case _:
            return TypeRef(scalar=draw(st.sampled_from([*SCALARS, "Blob"])), nullable=nullable)


@st.composite
def annotations(draw: st.DrawFn) -> Annotation:
    name = draw(names)
    # With arguments these names are constraints or bounds, which are not annotations.
    if name in CONSTRAINT_NAMES or name == "card" or draw(st.booleans()):
        return Annotation(name=_ident(name))
    value = draw(literals | names.filter(lambda word: word not in {"true", "false"}).map(_ident))
    keywords = draw(st.lists(st.tuples(names.map(_ident), literals), max_size=2))
    return Annotation(name=_ident(name), value=value, keywords=tuple(keywords))


@st.composite
def range_bounds(draw: st.DrawFn) -> RangeBound:
    low, high = draw(st.tuples(signed, st.none()) | st.tuples(st.none(), signed) | st.tuples(signed, signed))
    return RangeBound(low=low, high=high)


plain_arguments = (texts | integers | floats).map(_literal)
constraints = st.builds(
    Constraint,
    name=st.sampled_from(sorted(CONSTRAINT_NAMES)),
    arguments=st.lists(names.map(_ident) | range_bounds() | plain_arguments, min_size=1, max_size=3).map(tuple),
)
annotation_lists = st.lists(annotations(), max_size=2).map(tuple)
properties = st.builds(Property, name=property_names, type=types(), annotations=annotation_lists)
bodies = st.lists(properties | constraints, max_size=4).map(tuple)


@st.composite
def cardinalities(draw: st.DrawFn) -> Cardinality:
    minimum = draw(st.integers(0, MAX_CARDINALITY))
    return Cardinality(minimum=minimum, maximum=draw(st.none() | st.integers(minimum, MAX_CARDINALITY)))


declarations = (
    st.builds(InterfaceDecl, name=type_names, properties=st.lists(properties, max_size=3).map(tuple))
    | st.builds(
        NodeDecl,
        name=type_names,
        annotations=annotation_lists,
        implements=st.lists(type_names, max_size=2).map(tuple),
        items=bodies,
    )
    | st.builds(
        EdgeDecl,
        name=type_names,
        source=type_names,
        target=type_names,
        cardinality=st.none() | cardinalities(),
        annotations=annotation_lists,
        items=bodies,
    )
)

schema_files = st.builds(SchemaFile, declarations=st.lists(declarations, max_size=4).map(tuple))

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
