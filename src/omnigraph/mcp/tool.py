"""``Tool``: what is declared about a tool, the schemas of its arguments and its answer, and a call of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from omnigraph.errors import BadValue, ToolArgumentError
from omnigraph.mcp.access import AgentGraph, WriteKey
from omnigraph.operations.request import NOTHING, Attachments, Request, Response
from omnigraph.records import record


class Arguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of the arguments of tools: a name that is not known is refused."""


class Answer(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Base of the answers of tools; what has nothing to say is left out."""


class Step(msgspec.Struct, kw_only=True, frozen=True):
    """A call that makes sense next."""

    tool: str
    arguments: dict[str, Any]
    why: str


@record
class Question:
    """What a person has to agree to before a tool goes on, and the heads of the branches that it is about.

    The tool goes on upon these heads alone. Without a text nobody is asked, because there is nothing to agree to.
    """

    text: str | None
    heads: Mapping[str, str]


@record
class ToolCall:
    """One call of a tool on one graph.

    Args:
        graph: the graph.
        agreed: the heads that a person agreed to, as :class:`Question` has them; None if nobody had to.
    """

    graph: AgentGraph
    agreed: Mapping[str, str] | None = None

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request; raises what the operation does."""
        return self.graph.backend.execute(request, attached)

    def branch_of(self, given: str | None) -> str:
        """Return the branch that is read."""
        return self.graph.branch if given is None else given.strip()


@record
class Tool:
    """A tool.

    Args:
        name: what agents call it.
        title: what people read.
        description: what it does and when to use it.
        arguments: what it takes.
        answer: what it gives.
        run: does it, in a thread of its own.
        writes: whether it changes the graph.
        is_destructive: whether it can change or remove what others rely on.
        question: what a person has to be asked first; None without one, or if the branch is not protected.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[Answer]
    run: Callable[[ToolCall, Any], Answer]
    writes: bool = False
    is_destructive: bool = False
    question: Callable[[ToolCall, Any], Question | None] | None = None

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return schema_of(self.arguments)

    def decode(self, given: Mapping[str, Any]) -> Any:
        """Return the arguments of a call.

        Raises:
            ToolArgumentError: they do not fit the schema.
        """
        try:
            return msgspec.convert(dict(given), self.arguments)
        except (msgspec.ValidationError, RecursionError) as problem:
            reason = str(problem)
        details = BadValue(what="arguments", value=self.name, expected=", ".join(self.arguments.__struct_fields__))
        reason = reason[:1].lower() + reason[1:]
        raise ToolArgumentError(f"invalid arguments of '{self.name}': {reason}", details=details)

    def key_of(self, given: Mapping[str, Any]) -> WriteKey | None:
        """Return the key that the arguments of a write name, if they do."""
        key = given.get("idempotency_key")
        if not self.writes or not isinstance(key, str) or not key:
            return None
        payload = msgspec.json.encode([self.name, given], order="deterministic")
        return WriteKey(key=key, digest=hashlib.blake2b(payload, digest_size=16).hexdigest())


@lru_cache(maxsize=256)
def schema_of(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of arguments or of an answer, with an object at its root."""
    root = msgspec.json.schema(shape)
    name = root["$ref"].rpartition("/")[2]
    definitions = dict(root["$defs"])
    found = dict(definitions.pop(name))
    found.pop("title", None)
    return found | ({"$defs": definitions} if definitions else {})
