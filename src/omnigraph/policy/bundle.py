"""Policy bundles: the YAML file in which people write who may do what.

Rules permit; what no rule permits is denied. A key that is not known is an error at every level: a misspelt scope must
not widen access.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from omnigraph.errors import OmnigraphError, PolicyFormatError
from omnigraph.lang.document import Section, parse_document
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values.names import BranchName, is_comparable

VERSION = 1


class Scope(StrEnum):
    """Which branches a rule is about."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"
    # Below agents/<actor>/, of whoever asks.
    OWN = "own"


class BundleKind(StrEnum):
    """What a bundle is bound to: a graph, or the server with all of its graphs."""

    GRAPH = "graph"
    SERVER = "server"


BRANCH_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""What ``branch_scope`` may restrict."""
TARGET_ACTIONS = frozenset({Action.SCHEMA_APPLY, Action.BRANCH_CREATE, Action.BRANCH_DELETE, Action.BRANCH_MERGE})
"""What ``target_branch_scope`` may restrict."""
SERVER_ACTIONS = frozenset({Action.GRAPH_LIST})
"""What a bundle of a server grants; everything else is for bundles of graphs."""

_SCOPES = {"branch_scope": BRANCH_ACTIONS, "target_branch_scope": TARGET_ACTIONS}


@record
class Rule:
    """One permission: what the actors of a group may do, and on which branches.

    Of the two scopes at most one is set; None restricts nothing.
    """

    id: str
    group: str
    actions: tuple[Action, ...]
    branch_scope: Scope | None = None
    target_branch_scope: Scope | None = None


@record
class PolicyBundle:
    """A whole bundle: actors by group, the branches that are protected, and the rules."""

    kind: BundleKind
    groups: Mapping[str, tuple[str, ...]]
    protected_branches: frozenset[str]
    rules: tuple[Rule, ...]

    @property
    def actors(self) -> frozenset[str]:
        """Every actor that a group lists."""
        return frozenset(actor for members in self.groups.values() for actor in members)


def parse_bundle(data: bytes, name: str, kind: BundleKind | None = None) -> PolicyBundle:
    """Read a bundle.

    Args:
        data: the YAML text.
        name: what errors call it.
        kind: what it is bound to; None takes what the bundle itself says or its actions imply.

    Raises:
        PolicyFormatError: it is not a valid bundle; the error says where.
        SourceEncodingError, SourceTooLargeError: it is not text, or too much of it.
    """
    document = parse_document(data, name, error=PolicyFormatError, subject="the bundle")
    root = Section(document, document.root)
    check_version(root)
    declared = root.choice("kind", tuple(BundleKind))
    groups = _groups(root.section("groups"))
    protected = tuple(_branch_name(root, "protected_branches", one) for one in root.texts("protected_branches"))
    rules = _rules(root, groups)
    for key in ("groups", "rules"):
        if key not in root.names():
            raise root.problem(f"{key} is missing", expected=key)
    root.refuse_unknown()
    return PolicyBundle(
        kind=_kind_of(root, rules, declared, kind), groups=groups, protected_branches=frozenset(protected), rules=rules
    )


def check_version(root: Section) -> None:
    """Refuse a document whose version is missing or another one.

    Raises:
        PolicyFormatError: it is.
    """
    if "version" not in root.names():
        raise root.problem("version is missing", expected=f"version: {VERSION}")
    root.whole_number("version", least=VERSION, most=VERSION)


def _groups(section: Section) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for written in section.names():
        name = _name(section, written, written)
        members = tuple(_name(section, written, actor) for actor in section.texts(written))
        if not members:
            raise section.problem(f"group '{name}' has no actors", written, expected="a list of actors")
        if name in groups:
            raise section.problem(f"group '{name}' occurs twice", written, expected="each group once")
        groups[name] = members
    return groups


def _rules(root: Section, groups: Mapping[str, tuple[str, ...]]) -> tuple[Rule, ...]:
    rules: dict[str, Rule] = {}
    for section in root.items("rules"):
        rule = _rule(section, groups)
        if rule.id in rules:
            raise section.problem(f"rule '{rule.id}' occurs twice", "id", expected="a unique id")
        rules[rule.id] = rule
    return tuple(rules.values())


def _rule(section: Section, groups: Mapping[str, tuple[str, ...]]) -> Rule:
    written = section.text("id")
    if written is None:
        raise section.problem("a rule has no id", expected="id")
    rule_id = _name(section, "id", written)
    allow = section.section("allow")
    actors = allow.section("actors")
    group = actors.text("group")
    if group is None or group.strip() not in groups:
        missing = "names no group" if group is None else f"names the group '{group}', which is not declared"
        where = actors if group is not None else allow if "actors" in allow.names() else section
        raise where.problem(
            f"rule '{rule_id}' {missing}",
            "group" if group is not None else "actors",
            expected=f"one of {', '.join(groups)}" if groups else "a declared group",
        )
    actions = _actions(allow, rule_id)
    scopes = {key: _scope(allow, key, rule_id, actions) for key in _SCOPES if key in allow.names()}
    if len(scopes) > 1:
        raise allow.problem(
            f"rule '{rule_id}' has two scopes", "target_branch_scope", expected="branch_scope or target_branch_scope"
        )
    return Rule(id=rule_id, group=group.strip(), actions=actions, **scopes)


def _actions(allow: Section, rule_id: str) -> tuple[Action, ...]:
    names = allow.texts("actions")
    if not names:
        raise allow.problem(f"rule '{rule_id}' has no actions", "actions", expected="a list of actions")
    known = {action.value for action in Action}
    for name in names:
        if name not in known:
            raise allow.problem(
                f"rule '{rule_id}' has the unknown action '{name}'", "actions", expected=", ".join(sorted(known))
            )
    actions = tuple(Action(name) for name in names)
    _refuse_mixed(allow, "actions", f"rule '{rule_id}'", actions)
    return actions


def _scope(allow: Section, key: str, rule_id: str, actions: tuple[Action, ...]) -> Scope:
    chosen = allow.choice(key, tuple(Scope))
    if chosen is None:
        raise allow.problem(f"{key} of rule '{rule_id}' is empty", key, expected=", ".join(Scope))
    wrong = [action.value for action in actions if action not in _SCOPES[key]]
    if wrong:
        fitting = ", ".join(action.value for action in Action if action in _SCOPES[key])
        raise allow.problem(f"{key} of rule '{rule_id}' does not apply to '{wrong[0]}'", key, expected=fitting)
    return Scope(chosen)


def _kind_of(root: Section, rules: tuple[Rule, ...], declared: str | None, bound: BundleKind | None) -> BundleKind:
    actions = tuple(action for rule in rules for action in rule.actions)
    _refuse_mixed(root, "rules", "the bundle", actions)
    implied = BundleKind.SERVER if SERVER_ACTIONS.intersection(actions) else BundleKind.GRAPH if actions else None
    wanted = bound or (BundleKind(declared) if declared is not None else implied or BundleKind.GRAPH)
    if declared is not None and declared != wanted:
        raise root.problem(f"kind is '{declared}', but the bundle is bound to a {wanted}", "kind", expected=wanted)
    if implied is not None and implied is not wanted:
        first = next(action for action in actions if (action in SERVER_ACTIONS) is (implied is BundleKind.SERVER))
        raise root.problem(f"a {wanted} bundle cannot grant '{first}'", "rules", expected=f"actions of a {wanted}")
    return wanted


def _refuse_mixed(section: Section, key: str, what: str, actions: tuple[Action, ...]) -> None:
    if SERVER_ACTIONS.intersection(actions) and not SERVER_ACTIONS.issuperset(actions):
        raise section.problem(f"{what} mixes graph_list with actions of a graph", key, expected="one kind of action")


def _name(section: Section, key: str, written: str) -> str:
    """Return a name as it is compared: surrounding white space trimmed, every character visible."""
    name = written.strip()
    if not is_comparable(name):
        raise section.problem("a name is blank or has characters that cannot be printed", key, expected="a name")
    return name


def _branch_name(section: Section, key: str, written: str) -> str:
    """Return the name of a branch as requests carry it; what no branch can be called would protect nothing."""
    try:
        return str(BranchName.parse(written))
    except OmnigraphError as problem:
        raise section.problem(problem.message, key, expected="the name of a branch") from problem
