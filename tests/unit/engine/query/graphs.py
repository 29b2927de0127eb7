"""Small graphs for the tests of the read engine: people who know each other, teams they belong to."""

from __future__ import annotations

import json

from tests.session_graph import create_graph, open_session
from tests.unit.ir.graphs import compile_text

from omnigraph.engine.query.planner import Facts, plan_read
from omnigraph.ir import compile_query, expect_read

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
node Team { code: String @key  budget: F64? }
edge Knows: Person -> Person { since: Date? }
edge MemberOf: Person -> Team
"""


def ring(count, *, teams=3):
    """Persons p0, p1, …, each knowing the next two, each in one team."""
    lines = [{"type": "Person", "data": {"name": f"p{at}", "age": at % 90}} for at in range(count)]
    lines += [{"type": "Team", "data": {"code": f"t{at}", "budget": float(at)}} for at in range(teams)]
    for at in range(count):
        for step in (1, 2):
            ends = {"from": f"p{at}", "to": f"p{(at + step) % count}"}
            lines.append({"edge": "Knows", **ends, "data": {"id": f"k{at}-{step}"}})
        lines.append({"edge": "MemberOf", "from": f"p{at}", "to": f"t{at % teams}", "data": {"id": f"m{at}"}})
    return "\n".join(json.dumps(line) for line in lines)


def open_ring(root, count, **options):
    """Create a ring at ``root`` and open it."""
    create_graph(root, SCHEMA, ring(count))
    return open_session(root, **options)


def plan(body, parameters="", *, row_counts=None, rules_off=frozenset()):
    """Plan a read over the schema above."""
    catalog = compile_text(SCHEMA)
    compiled = compile_query(f"query q({parameters}) {{ {body} }}", None, catalog)
    counts = row_counts or {"node:Person": 1000, "node:Team": 10, "edge:Knows": 20_000, "edge:MemberOf": 1000}
    return plan_read(expect_read(compiled), Facts(catalog=catalog, row_counts=counts), rules_off)


def steps(body, parameters="", **options):
    """The steps of a plan as explain shows them."""
    return [str(step) for step in plan(body, parameters, **options).steps]
