"""The schemas of the random graphs that are read, and the values that graphs and queries share.

Graphs and queries draw from the same few values, so that comparisons meet equal values, near ones and extremes.
"""

from __future__ import annotations

from decimal import Decimal

from tests.query_oracle import Kind, read_schema
from tests.query_oracle.values import round_to_f32

# The instant at which seeded worlds stand still.
NOW_MS = 1_700_000_000_000
_MAX_32, _MAX_63 = 2**31 - 1, 2**63 - 1

SCHEMA_TEXTS = (
    """
node Person {
    name: String @key
    age: I32? @index
    serial: I64? @index
    is_open: Bool?
    ratio: F32? @index
    weight: F64?
    born: Date? @index
    seen: DateTime? @index
    amount: Decimal(12, 2)? @index
    mood: enum(calm, glad, sad)? @index
    tags: [String]?
    numbers: [I64]?
    bio: String? @index
    vec: Vector(2)? @index
}
node Team {
    code: String @key
    budget: F64?
    size: U32? @index
    rate: Decimal(6, 4)?
    mass: U64?
    vec: Vector(2)?
}
edge Knows: Person -> Person { since: Date?  weight: I32? @index  note: String? }
edge MemberOf: Person -> Team { role: String?  share: F32? }
edge Owns: Team -> Team { share: F64? }
""",
    """
node Item {
    rank: I64 @key
    label: String?
    price: F32?
    days: [Date]?
    halves: [F32]?
    is_open: Bool
}
node Note {
    text: String
    at: DateTime?
    size: U32?
    moments: [DateTime]?
    vec: Vector(2)
}
edge Links: Item -> Item
edge About: Note -> Item { n: U32?  at: DateTime? }
edge Cites: Note -> Note { w: F64?  tags: [String]? }
""",
    """
node Box {
    code: String
    size: I32
    dueDate: Date?
    count: I64?
    order: String?
    @key(code, size)
}
node Shelf { limit: I32 @key  date: Date? }
edge Contains: Box -> Box { date: Date?  match: String  @key(src, dst, match) }
edge StandsOn: Box -> Shelf { nearest: F64? }
""",
    """
interface Named {
    name: String?
    rank: I32?
}
node User implements Named {
    slug: String @key
    level: I64?
    score: F64?
    credit: Decimal(12, 2)?
    is_on: Bool?
    born: Date?
    seen: DateTime?
    mood: enum(calm, glad, sad)?
    tags: [String]?
    numbers: [I64]?
}
node Club implements Named {
    code: String @key
    size: U32?
    share: F32?
}
edge Follows: User -> User { since: Date?  weight: I32?  note: String? }
edge Likes: User -> User { at: DateTime?  weight: I32?  fee: Decimal(9, 3)? }
edge InClub: User -> Club { role: String? }
edge Within: Club -> Club { share: F64? }
""",
)
SCHEMAS = tuple(read_schema(text) for text in SCHEMA_TEXTS)

# Sums over these are exact however they are added up, so they can be compared and ordered by.
SUMMABLE = {"I32", "U32"}
TAME = {"weight", "budget", "share", "w", "nearest", "count"}

# Weighted, so that texts often are and hold what is looked for.
STRINGS = ("a", "ab", "b", "a", "ba", "", "ab", "B", "é", "a%", "_", 'q"\\\n', "😀")
NEEDLES = ("a", "", "b", "a", "%", "é")
_POOLS: dict[str, tuple] = {
    "String": STRINGS,
    "Bool": (False, True),
    "I32": (-3, 0, 1, 2, 3, 41, _MAX_32, -_MAX_32 - 1),
    "I64": (-1, 0, 1, 2, 3, 2**53, 2**53 + 1, _MAX_63, -_MAX_63 - 1),
    "U32": (0, 1, 2, 3, 2**32 - 1),
    "U64": (0, 1, 2, 3, 2**53 + 1, _MAX_63, 2**64 - 1),
    "F32": tuple(map(round_to_f32, (0.0, -0.0, 0.1, 0.5, 1.0, 2.5, -3.25, 16777216.0, 3e38))),
    "F64": (0.0, -0.0, 0.1, round_to_f32(0.1), 0.5, 1.0, 2.5, -3.25, 2.0**53, 1e300),
    "Decimal": tuple(map(Decimal, ("0", "0.10", "-0.5", "1", "2.50", "-3.25", "41"))),
    "Date": (-1, 0, 18262, 19000, 19675),
    "DateTime": (-1, 0, 1, NOW_MS, NOW_MS + 1, 1_577_836_800_000),
}
_TAME_POOLS: dict[str, tuple] = {"F64": (0.0, 0.5, 1.0, 2.5, -3.25), "I64": (-1, 0, 1, 2, 3)}
COMPONENTS = (-1.0, 0.0, 0.5, 1.0, 3.0, 4.0)


def pool(name: str, kind: Kind) -> tuple:
    """Return the values that a property stores and is compared with; for a list or vector those of its items."""
    if kind.dimension is not None:
        return COMPONENTS
    if kind.enum_values:
        return kind.enum_values
    if name == "needle" and kind.scalar == "String":
        return NEEDLES
    if name in TAME and kind.scalar in _TAME_POOLS:
        return _TAME_POOLS[kind.scalar]
    if kind.digits is not None:
        _, scale = kind.digits
        # The extremes of the type besides, in all of its digits.
        most = Decimal((0, (9,) * kind.digits[0], -scale))
        return (*(value.quantize(Decimal((0, (1,), -scale))) for value in _POOLS["Decimal"]), most, -most)
    return _POOLS[kind.scalar]


def is_summable(name: str, kind: Kind) -> bool:
    """Whether sums over the property are exact."""
    return kind.scalar in SUMMABLE or (name in TAME and kind.scalar in _TAME_POOLS)
