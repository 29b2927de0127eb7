"""Random schema trees that compile: rich in types, annotations, constraints and interfaces."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.lang.pg.ast import (
    Annotation,
    Constraint,
    EdgeDecl,
    InterfaceDecl,
    Literal,
    NodeDecl,
    Property,
    RangeBound,
    SchemaFile,
)
from omnigraph.lang.source import Ident
from tests.prop.strategies_pg import cardinalities, literals, signed, texts, types

NUMBERS = ("I32", "I64", "U32", "U64", "F32", "F64", "Decimal")
PATTERNS = ("^[a-z]+$", "a|b", "", "\\p{L}", '"', "[^\\\\]{2,5}")
NODES = ("A", "Ab", "B", "C_1")
_INERT = ("owner", "todo", "range", "deprecated")


def _ident(text: str) -> Ident:
    return Ident(text=text)


@st.composite
def inert_annotations(draw: st.DrawFn) -> tuple[Annotation, ...]:
    chosen = draw(st.lists(st.sampled_from(_INERT), unique=True, max_size=2))
    values = {name: None if name == "range" else draw(st.none() | literals) for name in chosen}
    described = draw(st.none() | texts.filter(str.strip))
    found = [Annotation(name=_ident(name), value=value) for name, value in values.items()]
    if described is not None:
        found.append(Annotation(name=_ident("description"), value=Literal(value=described)))
    return tuple(found)


@st.composite
def properties(draw: st.DrawFn, name: str, *, marks: bool = True) -> Property:
    kind = draw(types())
    annotations = list(draw(inert_annotations()))
    if marks and not kind.is_list and kind.scalar not in {"Blob", "Vector"}:
        words = draw(st.sets(st.sampled_from(["unique", "index"])))
        annotations.extend(Annotation(name=_ident(word)) for word in sorted(words))
    return Property(name=_ident(name), type=kind, annotations=tuple(annotations))


def _columns(draw: st.DrawFn, props: list[Property], extra: tuple[str, ...] = ()) -> list[Constraint]:
    scalars = [prop for prop in props if not prop.type.is_list and prop.type.scalar not in {"Blob", "Vector"}]
    names = [*(prop.name.text for prop in scalars), *extra]
    found: list[Constraint] = []
    for word in draw(st.lists(st.sampled_from(["unique", "index"]), max_size=2)) if names else []:
        columns = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
        found.append(Constraint(name=word, arguments=tuple(map(_ident, columns))))
    required = [prop.name.text for prop in scalars if not prop.type.nullable]
    if (required or extra) and draw(st.booleans()):
        rest = draw(st.lists(st.sampled_from(required), min_size=0 if extra else 1, unique=True)) if required else []
        columns = draw(st.permutations([*extra, *rest]))
        found.append(Constraint(name="key", arguments=tuple(map(_ident, columns))))
    return found


def _values(draw: st.DrawFn, props: list[Property]) -> list[Constraint]:
    found: list[Constraint] = []
    for prop in props:
        if prop.type.scalar in NUMBERS and draw(st.booleans()):
            low, high = draw(st.tuples(signed, st.none() | signed) | st.tuples(st.none(), signed))
            arguments = (prop.name, RangeBound(low=low, high=high))
            found.append(Constraint(name="range", arguments=arguments))
        if prop.type.scalar in {"String", "enum"} and draw(st.booleans()):
            pattern = Literal(value=draw(st.sampled_from(PATTERNS)))
            found.append(Constraint(name="check", arguments=(prop.name, pattern)))
    return found


@st.composite
def compilable(draw: st.DrawFn) -> SchemaFile:
    """A schema without a finding; names of interface properties differ from all others."""
    interfaces = [
        InterfaceDecl(
            name=_ident(name),
            properties=tuple(
                draw(properties(f"{name.lower()}_{part}")) for part in draw(st.sets(st.sampled_from("xy")))
            ),
        )
        for name in draw(st.lists(st.sampled_from(["I", "J"]), unique=True))
    ]
    nodes: list[NodeDecl] = []
    for name in draw(st.lists(st.sampled_from(NODES), unique=True, min_size=1)):
        props = [draw(properties(prop)) for prop in draw(st.lists(st.sampled_from("abcde"), unique=True))]
        implements = draw(st.lists(st.sampled_from(interfaces), max_size=3)) if interfaces else []
        items = draw(st.permutations([*props, *_columns(draw, props), *_values(draw, props)]))
        nodes.append(
            NodeDecl(
                name=_ident(name),
                annotations=draw(inert_annotations()),
                implements=tuple(one.name for one in implements),
                items=tuple(items),
            )
        )
    edges: list[EdgeDecl] = []
    for name in draw(st.lists(st.sampled_from(["A", "Knows", "Likes"]), unique=True)):
        props = [draw(properties(prop)) for prop in draw(st.lists(st.sampled_from("abc"), unique=True))]
        ends = [draw(st.sampled_from(nodes)).name for _ in range(2)]
        edges.append(
            EdgeDecl(
                name=_ident(name),
                source=ends[0],
                target=ends[1],
                cardinality=draw(st.none() | cardinalities()),
                annotations=draw(inert_annotations()),
                items=tuple(draw(st.permutations([*props, *_columns(draw, props, ("src", "dst"))]))),
            )
        )
    return SchemaFile(declarations=tuple(draw(st.permutations([*interfaces, *nodes, *edges]))))
