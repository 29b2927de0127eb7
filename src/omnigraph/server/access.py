"""Who asks, and what they may do: the one place where routes meet identities and policies."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.operations.request import Backend
from omnigraph.policy import Action, Actor, Decision, Question
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.policy import AuditedPolicy, BundlePolicy, NoBundle, Policy, check_allowed
from omnigraph.server.config import ServerSettings
from omnigraph.server.identity import AccessState, Identities, classify_access

_SERVER = "server"


class EverythingAllowed:
    """The policy of a person who serves a graph of their own."""

    def decide(self, actor: Actor | None, question: Question) -> Decision:
        """Allow it."""
        del actor
        return Decision(allowed=True, message=f"action '{question.action}' is allowed: the server is personal")


class Access:
    """What a server demands of callers.

    Args:
        state: whether callers have to say who they are, and what holds then.
        identities: the tokens that it accepts.
        server_policy: what decides about the server itself.
        graph_policies: what decides about each graph, by its id; a graph without one lets actors read.
    """

    def __init__(
        self,
        state: AccessState,
        identities: Identities,
        server_policy: Policy,
        graph_policies: Mapping[str, Policy],
    ) -> None:
        self.state = state
        self.identities = identities
        self._server_policy = server_policy
        self._graph_policies = dict(graph_policies)

    @classmethod
    def load(cls, settings: ServerSettings, identities: Identities) -> Access:
        """Read the bundles that settings name.

        Raises:
            IdentityConfigError: the server would be open by accident, or closed to everybody.
            FileMissingError, FileAccessError, PolicyFormatError: a bundle cannot be read.
        """
        bundles = {graph.graph_id: graph.policy_file for graph in settings.graphs if graph.policy_file is not None}
        state = classify_access(
            has_tokens=identities.has_tokens,
            has_policy=bool(bundles) or settings.policy_file is not None,
            is_unauthenticated=settings.unauthenticated,
        )
        server: Policy = EverythingAllowed() if settings.is_personal else NoBundle()
        if settings.policy_file is not None:
            server = BundlePolicy.from_file(settings.policy_file, kind=BundleKind.SERVER)
        policies = {
            graph_id: AuditedPolicy(
                policy=BundlePolicy.from_file(path, resource_id=graph_id, kind=BundleKind.GRAPH), resource=graph_id
            )
            for graph_id, path in bundles.items()
        }
        if settings.is_personal:
            policies |= {
                graph.graph_id: AuditedPolicy(policy=EverythingAllowed(), resource=graph.graph_id)
                for graph in settings.graphs
                if graph.policy_file is None
            }
        return cls(state, identities, AuditedPolicy(policy=server, resource=_SERVER), policies)

    @property
    def is_open(self) -> bool:
        """Whether callers need not say who they are."""
        return self.state is AccessState.OPEN

    def authenticate(self, authorization: str | None) -> Actor | None:
        """Return who sends a header; None where callers need not say.

        Raises:
            TokenMissingError, TokenInvalidError: the header does not say it.
        """
        return None if self.is_open else self.identities.actor_of(authorization)

    def backend(self, graph_id: str, inner: Backend, actor: Actor | None) -> Backend:
        """Return what executes the requests of an actor on a graph."""
        del graph_id, actor
        return inner

    def require(
        self, graph_id: str, actor: Actor | None, action: Action, *, branch: str | None, target: str | None = None
    ) -> None:
        """Return if an actor may do something on a graph.

        Raises:
            PolicyDeniedError: it may not.
            PolicyEvaluationError: there is no decision.
        """
        question = Question(action=action, branch=branch, target_branch=target)
        check_allowed(self._policy(graph_id), actor, question)

    def require_listing(self, actor: Actor | None) -> None:
        """Return if an actor may list the graphs.

        Raises:
            PolicyDeniedError: it may not.
        """
        check_allowed(self._server_policy, actor, Question(action=Action.GRAPH_LIST))

    def _policy(self, graph_id: str) -> Policy:
        return self._graph_policies.get(graph_id) or _NO_BUNDLE


_NO_BUNDLE = NoBundle()
