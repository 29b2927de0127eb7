"""The first five minutes of an agent: from a graph that it does not know to a change that is merged.

Run it beside the graph: ``omnigraph init --schema schema.pg people.omni``, ``omnigraph load people.omni --data
staff.jsonl --mode append``, ``python agents/session.py``. A model would choose the calls; here they are written down.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp_types import ElicitRequestParams, ElicitResult

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(
    command=sys.executable, args=["-m", "omnigraph", "mcp", "people.omni", "--as", "planner"]
)


async def ask_person(_context: Any, question: ElicitRequestParams) -> ElicitResult:
    """Show the question; a client with a window would wait for the person."""
    branch, _, rest = question.message.partition(" into ")
    print(f"asked: {branch.rpartition('-')[0]}… into {rest}")
    return ElicitResult(action="accept", content={"agree": True})


async def main() -> None:
    """Look around, change something, review it, and merge it."""
    async with Client(SERVER, elicitation_callback=ask_person) as agent:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await agent.call_tool(tool, arguments)
            if answer.is_error:
                raise SystemExit(answer.structured_content["error"]["message"])
            return dict(answer.structured_content)

        found = await call("schema_search", text="works")
        print("found:", ", ".join(one["name"] for one in found["types"]))

        described = await call("describe_type", name="Person")
        print("key:", ", ".join(described["key"]))

        people = "query people() { match { $p: Person } return { $p.slug as slug, $p.level as level } order { slug } }"
        rows = (await call("query", text=people))["rows"]
        print("juniors:", ", ".join(row["slug"] for row in rows if row["level"] == "junior"))

        promote = (
            "query promote($slug: String, $level: String) { update Person set { level: $level } where slug = $slug }"
        )
        written = await call("mutate", text=promote, params={"slug": "bo", "level": "senior"}, message="promote Bo")
        print("branch:", written["branch"].rpartition("-")[0])

        diff, preview, merge = written["next"]
        changes = await call(diff["tool"], **diff["arguments"])
        print(
            "changed:", ", ".join(f"{one['type']['name']} {one['id']}: {one['changed']}" for one in changes["changes"])
        )
        print("conflicts:", (await call(preview["tool"], **preview["arguments"]))["conflict_count"])

        merged = await call(merge["tool"], **merge["arguments"])
        print("merged:", merged["outcome"])


asyncio.run(main())
