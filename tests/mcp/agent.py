"""``Agent``: the client of the SDK as a test uses it, without an event loop of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp_types import ElicitRequestParams, ElicitResult

from mcp import Client, MCPError

# Generous: it bounds a hanging test, nothing is measured by it.
WAIT_S = 60.0


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, action: Any = "accept", content: Any = None) -> None:
        self.action = action
        self.content = {"agree": True} if content is None else content
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action=self.action, content=self.content if self.action == "accept" else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A client that is connected."""

    portal: BlockingPortal
    client: Client

    @property
    def version(self) -> str:
        """The version of the protocol that was agreed on."""
        return str(self.client.protocol_version)

    def tools(self) -> dict[str, Any]:
        """Return the tools by name."""
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that succeeds."""
        answer = self.portal.call(self.client.call_tool, tool, arguments)
        assert not answer.is_error, answer.structured_content
        return answer.structured_content

    def fail(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that fails, and return the error."""
        answer = self.portal.call(self.client.call_tool, tool, arguments)
        assert answer.is_error, answer.structured_content
        return answer.structured_content["error"]

    def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its answer as the text that older clients read."""
        answer = self.portal.call(self.client.call_tool, tool, arguments)
        (content,) = answer.content
        return content.text

    def read(self, uri: str) -> str:
        """Read a resource."""
        (content,) = self.portal.call(self.client.read_resource, uri).contents
        return content.text

    def unread(self, uri: str) -> MCPError:
        """Read a resource that cannot be read, and return the error."""
        try:
            self.read(uri)
        except MCPError as error:
            return error
        raise AssertionError(uri)

    def resources(self) -> list[str]:
        """Return the addresses of the resources."""
        return [str(one.uri) for one in self.portal.call(self.client.list_resources).resources]

    def prompts(self) -> list[str]:
        """Return the names of the prompts."""
        return [one.name for one in self.portal.call(self.client.list_prompts).prompts]

    def prompt(self, name: str, **arguments: str) -> str:
        """Return the text of a prompt."""
        (message,) = self.portal.call(self.client.get_prompt, name, arguments).messages
        return message.content.text


@contextmanager
def connect(server: Any, *, mode: str = "auto", person: Person | None = None) -> Iterator[Agent]:
    """Connect to a server: its object, the parameters of a process, or a transport."""
    client = Client(server, mode=mode, elicitation_callback=person, read_timeout_seconds=WAIT_S)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as connected:
        yield Agent(portal=portal, client=connected)
