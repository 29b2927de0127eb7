"""Who asks, and what they may do: the one place where routes meet identities and policies."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.operations.authorized import AuthorizedBackend
from omnigraph.operations.request import Backend
from omnigraph.policy import Action, Actor, Decision, Question
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.policy import BundlePolicy, NoBundle, Policy, check_allowed
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.identity import AccessState, Identities, classify_access
from omnigraph.values import BranchName

SERVER = "server"


class EverythingAllowed:
    """The policy of a person who serves a graph of their own."""

    def __init__(self, resource_id: str) -> None:
        self.resource_id = resource_id

    def decide(self, actor: Actor | None, question: Question) -> Decision:
        """Allow it."""
        del actor
        return Decision(allowed=True, message=f"action '{question.action}' is allowed: the server is personal")


class Access:
    """What a server demands of callers. Without arguments it demands nothing: every caller may do everything.

    Args:
        state: whether callers have to say who they are, and what holds then.
        identities: the tokens that it accepts.
        server_policy: what decides about the server itself.
        graph_policies: what decides about each graph, by its id; a graph without one lets actors read.
    """

    def __init__(
        self,
        state: AccessState = AccessState.OPEN,
        identities: Identities | None = None,
        server_policy: Policy | None = None,
        graph_policies: Mapping[str, Policy] | None = None,
    ) -> None:
        self.state = state
        self.identities = identities or Identities()
        self._server_policy = server_policy or NoBundle(SERVER)
        self._graph_policies = dict(graph_policies or {})

    @classmethod
    def load(
        cls, settings: ServerSettings, identities: Identities, graph_policies: Mapping[str, Policy] | None = None
    ) -> Access:
        """Return what settings and tokens ask for.

        Args:
            settings: the settings of the server.
            identities: the tokens that it accepts.
            graph_policies: the policies of the graphs that are served, compiled.

        Raises:
            IdentityConfigError: the server would be open by accident, or closed to everyone.
            FileMissingError, FileAccessError, PolicyFormatError: the bundle of the server cannot be used.
        """
        state = classify_access(
            has_tokens=identities.has_tokens,
            has_policy=settings.policy_file is not None or any(graph.policy_file for graph in settings.graphs),
            is_unauthenticated=settings.unauthenticated,
        )
        policies = dict(graph_policies or {})
        server: Policy | None = None
        if settings.is_personal:
            server = EverythingAllowed(SERVER)
            for graph in settings.graphs:
                policies.setdefault(graph.graph_id, EverythingAllowed(graph.graph_id))
        if settings.policy_file is not None:
            server = BundlePolicy.from_file(settings.policy_file, kind=BundleKind.SERVER)
        return cls(state, identities, server, policies)

    @property
    def is_open(self) -> bool:
        """Whether callers need not say who they are."""
        return self.state is AccessState.OPEN

    @property
    def asks_provider(self) -> bool:
        """Whether authentication may have to wait for an identity provider, so that it belongs into a thread."""
        return self.identities.asks_provider

    def authenticate(self, authorization: str | bytes | None) -> Actor | None:
        """Return who sends a header; None where callers need not say.

        Raises:
            TokenMissingError, TokenInvalidError: they must say, and did not.
            IdentityProviderError: the token cannot be checked.
        """
        return None if self.is_open else self.identities.actor_of(authorization)

    def backend(self, graph_id: str, inner: Backend, actor: Actor | None) -> Backend:
        """Return what executes the requests of an actor on a graph."""
        return inner if self.is_open else AuthorizedBackend(inner, self._policy_of(graph_id), actor)

    def require(
        self, graph_id: str, actor: Actor | None, action: Action, *, branch: str | None, target: str | None = None
    ) -> None:
        """Return if an actor may do something on a graph.

        Raises:
            PolicyDeniedError: they may not.
            PolicyEvaluationError: there is no decision.
            ValueFormatError: a branch name is blank or malformed.
        """
        on, targeted = (None if name is None else str(BranchName.parse(name)) for name in (branch, target))
        check_allowed(self._policy_of(graph_id), actor, Question(action=action, branch=on, target_branch=targeted))

    def require_listing(self, actor: Actor | None) -> None:
        """Return if an actor may list the graphs.

        Raises:
            PolicyDeniedError: they may not.
            PolicyEvaluationError: there is no decision.
        """
        check_allowed(self._server_policy, actor, Question(action=Action.GRAPH_LIST))

    def _policy_of(self, graph_id: str) -> Policy:
        return self._graph_policies.get(graph_id) or NoBundle(graph_id)


def load_graph_policy(served: ServedGraph) -> Policy | None:
    """Return the compiled bundle of a graph, if it has one.

    Raises:
        PolicyFormatError, FileMissingError, FileAccessError: it cannot be used.
    """
    if served.policy_file is None:
        return None
    return BundlePolicy.from_file(served.policy_file, resource_id=served.graph_id, kind=BundleKind.GRAPH)
