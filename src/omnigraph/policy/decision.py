"""Who asks, what they ask for, and what a policy answers."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.records import record
from omnigraph.values.names import ActorName


class Action(StrEnum):
    """What a policy grants or denies."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"
    MAINTAIN = "maintain"
    ADMIN = "admin"
    GRAPH_LIST = "graph_list"


@record
class Actor:
    """Who asks: the name that commits record, and the groups that an identity provider vouches for.

    A bundle lists the actors of its groups itself; ``groups`` adds to them.

    Raises:
        UsageError, ValueFormatError: nothing can have that name.
    """

    name: str
    groups: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(ActorName.parse(self.name)))


@record
class Question:
    """What an actor wants to do. A branch is None where the action concerns none, or is not known."""

    action: Action
    branch: str | None = None
    target_branch: str | None = None


@record
class Decision:
    """What a policy answers.

    Args:
        allowed: whether it may be done.
        matched_rule_id: the rule that allows it, the smallest id of several; None if no rule decided.
        message: the decision in a sentence.
    """

    allowed: bool
    matched_rule_id: str | None = None
    message: str
