"""Who asks, and what they may do: the one place where routes meet identities and policies."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import anyio.to_thread

from omnigraph.errors import BadValue, GraphMissingError, MissingThing, UsageError
from omnigraph.operations.authorized import AuthorizedBackend
from omnigraph.operations.request import NOTHING, Attachments, Backend, BackendWrapper, Request, Response
from omnigraph.policy.bundle import SERVER_ACTIONS, BundleKind, PolicyBundle, Rule, parse_bundle
from omnigraph.policy.decision import Action, Actor, Question
from omnigraph.policy.policy import BundlePolicy, NoBundle, Policy, check_allowed
from omnigraph.server.access.identity import AccessState, Identities, classify_access
from omnigraph.server.access.oidc import verifier_from_environment
from omnigraph.server.config import PolicyText, ServedGraph, ServerSettings, is_set
from omnigraph.values import BranchName

TRUST_VARIABLE = "OMNIGRAPH_TRUST_ACTORS"
SERVER = "server"
OWNER = "owner"


class Access:
    """What a server demands of callers. Without arguments it demands nothing: every caller may do everything.

    Args:
        identities: the tokens that are accepted.
        policies: the policy of each graph that has one, by the id of the graph.
        server_policy: the policy of the server itself.
        graph_ids: the graphs that these policies are all about; nothing is allowed on others. Any graph when None.
        is_unauthenticated: whether it may be open.
        trusts_names: whether an open server records the actor that a write names. Otherwise it has no actors, and a
            write that names one is refused.

    Raises:
        IdentityConfigError: a server must not start with these.
    """

    def __init__(
        self,
        identities: Identities | None = None,
        policies: Mapping[str, Policy] | None = None,
        server_policy: Policy | None = None,
        *,
        graph_ids: Collection[str] | None = None,
        is_unauthenticated: bool = True,
        trusts_names: bool = False,
    ) -> None:
        self._trusts_names = trusts_names
        # Not "or": with a provider alone there are none that could be counted.
        self._identities = Identities() if identities is None else identities
        self._policies = dict(policies or {})
        self._graph_ids = graph_ids
        self._server_policy = server_policy or NoBundle(SERVER)
        self.state = classify_access(
            has_tokens=self._identities.has_tokens,
            has_policy=bool(policies) or server_policy is not None,
            is_unauthenticated=is_unauthenticated,
        )

    @classmethod
    def from_settings(
        cls,
        settings: ServerSettings,
        policies: Mapping[str, Policy],
        environment: Mapping[str, str] | None = None,
        *,
        graph_ids: Collection[str] | None = None,
    ) -> Access:
        """Return what settings and environment ask for; ``policies`` are those of the graphs ``graph_ids``.

        Raises:
            IdentityConfigError: the tokens cannot be read, or a server must not start with them.
            PolicyFormatError, FileMissingError, FileAccessError: the policy of the server cannot be used.
        """
        if settings.owner_token is not None:
            owned = {graph.graph_id: _owner_policy(BundleKind.GRAPH, graph.graph_id) for graph in settings.graphs}
            tokens = Identities.of({OWNER: settings.owner_token}, source="a generated token")
            return cls(tokens, owned, _owner_policy(BundleKind.SERVER, SERVER), graph_ids=graph_ids)
        variables = {**(os.environ if environment is None else environment), **settings.identity}
        identities = Identities.from_environment(variables, verifier=verifier_from_environment(variables))
        return cls(
            identities,
            policies,
            _installed(settings.policy_file, settings.policy, BundleKind.SERVER, SERVER),
            graph_ids=graph_ids,
            is_unauthenticated=settings.unauthenticated,
            trusts_names=is_set(variables, TRUST_VARIABLE),
        )

    @property
    def is_open(self) -> bool:
        """Whether callers need not say who they are."""
        return self.state is AccessState.OPEN

    @property
    def token_sources(self) -> tuple[str, ...]:
        """Where the tokens came from, for the log."""
        return self._identities.sources

    def authenticate(self, authorization: str | bytes | None) -> Actor | None:
        """Return who sends a header; None where callers need not say.

        Raises:
            TokenMissingError, TokenInvalidError: they must say, and did not.
        """
        return None if self.is_open else self._identities.actor_of(authorization)

    async def identify(self, authorization: str | bytes | None) -> Actor | None:
        """Return what :meth:`authenticate` does, without holding up the event loop while a provider is asked."""
        if not self.is_open and self._identities.asks_provider(authorization):
            return await anyio.to_thread.run_sync(self.authenticate, authorization)
        return self.authenticate(authorization)

    def backend(self, graph_id: str, inner: Backend, actor: Actor | None) -> Backend:
        """Return what executes the requests of an actor on a graph.

        Raises:
            GraphMissingError: the graph is not served any more.
        """
        if self.is_open:
            return inner if self._trusts_names else NamelessBackend(inner)
        return AuthorizedBackend(inner, self._policy_of(graph_id), actor)

    def require(
        self,
        graph_id: str | None,
        actor: Actor | None,
        action: Action | str,
        *,
        branch: str | None,
        target: str | None = None,
    ) -> None:
        """Return if an actor may do something on a graph, or on the server itself if ``graph_id`` is None.

        Raises:
            PolicyDeniedError: they may not.
            PolicyEvaluationError: there is no decision.
            GraphMissingError: the graph is not served any more.
        """
        policy = self._server_policy if graph_id is None else self._policy_of(graph_id)
        wanted, targeted = (None if name is None else str(BranchName.parse(name)) for name in (branch, target))
        check_allowed(policy, actor, Question(action=Action(action), branch=wanted, target_branch=targeted))

    def _policy_of(self, graph_id: str) -> Policy:
        # A request may have waited while the configuration changed: without its graph there is no policy to go by.
        if self._graph_ids is not None and graph_id not in self._graph_ids:
            raise graph_missing(graph_id)
        return self._policies.get(graph_id) or NoBundle(graph_id)


class NamelessBackend(BackendWrapper):
    """A graph as callers see it who are nobody: what they write has no actor."""

    def execute(self, request: Request[Response], attached: Attachments = NOTHING) -> Response:
        """Execute a request.

        Raises:
            UsageError: it is a write that names an actor.
            OmnigraphError: whatever the operation raises.
        """
        named = getattr(request, "actor", None) if request.operation.writes else None
        if named is not None:
            details = BadValue(
                what="actor", value=str(named), expected="no actor: the server runs without authentication"
            )
            raise UsageError(
                f"a server without tokens has no actors, so '{named}' cannot write",
                details=details,
                hint=f"leave the actor out, serve with tokens, or set {TRUST_VARIABLE} for a server",
            )
        return self._inner.execute(request, attached)


def graph_missing(graph_id: str) -> GraphMissingError:
    """Return the error for a graph that is not served."""
    return GraphMissingError(f"graph '{graph_id}' not found", details=MissingThing(what="graph", name=graph_id))


def has_identities(environment: Mapping[str, str]) -> bool:
    """Whether the environment names tokens or an identity provider.

    Raises:
        IdentityConfigError: what it names cannot be used.
    """
    return Identities.from_environment(environment, verifier=verifier_from_environment(environment)).has_tokens


def _owner_policy(kind: BundleKind, resource_id: str) -> Policy:
    actions = tuple(action for action in Action if (action in SERVER_ACTIONS) is (kind is BundleKind.SERVER))
    rule = Rule(id=OWNER, group=OWNER, actions=actions)
    bundle = PolicyBundle(kind=kind, groups={OWNER: (OWNER,)}, protected_branches=frozenset(), rules=(rule,))
    return BundlePolicy(bundle, resource_id)


def load_graph_policy(served: ServedGraph) -> Policy | None:
    """Return the compiled bundle of a graph, if it has one.

    Raises:
        PolicyFormatError, FileMissingError, FileAccessError: it cannot be used.
    """
    return _installed(served.policy_file, served.policy, BundleKind.GRAPH, served.graph_id)


def _installed(file: Path | None, text: PolicyText | None, kind: BundleKind, resource_id: str) -> Policy | None:
    if text is not None:
        return BundlePolicy(parse_bundle(text.data, text.name, kind), resource_id)
    return None if file is None else BundlePolicy.from_file(file, resource_id=resource_id, kind=kind)
