"""Graphs of floats whose naive sums depend on the order of the rows, and reads that add them up in every way."""

from __future__ import annotations

import json
import math
import random
import struct

from tests.session_graph import add_rows, create_graph, open_session

SCHEMA = "node Sale { no: I32 @key  shop: String  price: F64?  rate: F32?  big: I64? }"
READS = [
    "match { $s: Sale } return { sum($s.price) as a, avg($s.price) as b, avg($s.rate) as c, sum($s.big) as d }",
    "match { $s: Sale } return { $s.shop, sum($s.price) as a, avg($s.price) as b, sum($s.rate) as c, count($s) as n }",
    "match { $s: Sale } return { $s.shop, sum($s.price * 1.1) as a, avg($s.price / 3.0) as b, sum($s.big) as d }",
    "match { $s: Sale } return { sum(distinct $s.price) as a, avg($s.price where $s.big > 0) as b }",
    "match { $s: Sale } with { $s.shop as shop, avg($s.price) as a } return { sum(a) as b, avg(a) as c }",
]


def sales(seed, count=300):
    """Return lines of sales, small, large, negative and missing ones."""
    chance = random.Random(seed)  # noqa: S311 - a test's own
    lines = []
    for number in range(count):
        price = chance.choice([chance.uniform(-1, 1), chance.uniform(0, 1e6), chance.gauss(0, 1) * 10.0 ** (seed * 7)])
        data = {
            "no": number,
            "shop": chance.choice("abcd"),
            "price": None if number % 17 == 3 else chance.choice([price, 0.1, -price]),
            "rate": struct.unpack("f", struct.pack("f", chance.random()))[0],
            "big": chance.randrange(-(1 << 62), 1 << 62),
        }
        lines.append(json.dumps({"type": "Sale", "data": data}))
    return lines


def make_sales(root, lines, parts, seed):
    """Create a graph of sales in so many commits, in an order of its own, and return it open."""
    create_graph(root, SCHEMA)
    session = open_session(root)
    shuffled = random.Random(seed).sample(lines, len(lines))  # noqa: S311 - a test's own
    for part in range(parts):
        add_rows(session, "\n".join(shuffled[part::parts]))
    return session


def bits(table):
    """Return rows in a fixed order, floats as their bits."""
    rows = [
        tuple(struct.pack("d", value) if isinstance(value, float) else value for value in row.values())
        for row in table.to_pylist()
    ]
    return sorted(rows, key=repr)


def true_sums(lines):
    """Return the sum and the mean of all prices, each rounded as little as can be."""
    prices = [price for line in lines if (price := json.loads(line)["data"]["price"]) is not None]
    total = math.fsum(prices)
    return total, total / len(prices)
