"""A conversation with a graph: which state is read, and what each input does."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TextIO

from omnigraph.catalog import Catalog
from omnigraph.cli.commands.data.mutate import execute_asking, parameter_value, show_mutation
from omnigraph.cli.commands.data.query import ResultFormat, write_result
from omnigraph.cli.graphs import CommandBackend, read_catalog
from omnigraph.cli.output import TextOutput, write_line
from omnigraph.cli.shell.statements import SOURCE, Statement, show_value
from omnigraph.cli.usage import usage_error
from omnigraph.errors import DiagnosticError, OmnigraphError
from omnigraph.operations.history import ListBranchesRequest
from omnigraph.operations.reads import ExplainRequest, QueryRequest, ReadStateRequest, ResolveRefRequest
from omnigraph.operations.request import Request
from omnigraph.operations.transactions import (
    BeginTransactionRequest,
    CallInTransactionRequest,
    CommitTransactionRequest,
    RollbackTransactionRequest,
)
from omnigraph.operations.writes import MutateRequest
from omnigraph.records import record
from omnigraph.values import MAIN, BranchName
from omnigraph.values.counts import counted

_NEWEST = "now"


@record
class ShellCommand:
    """A command of the shell: what it takes, one line about it, and what runs it."""

    takes: str
    about: str
    run: Callable[[ShellSession, str], None]


@record(frozen=False, kw_only=False, slots=False)
class ShellSession:
    """The state of a shell. Statements read and write ``branch``; with ``as_of`` they read that state instead.

    ``actor`` and ``message`` are what the commits of its mutations say. In a ``transaction`` statements read and write
    its private state; ``calls`` counts those whose results were shown.
    """

    backend: CommandBackend
    branch: str = MAIN
    as_of: str | None = None
    actor: str | None = None
    message: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    out: TextIO = field(default_factory=lambda: sys.stdout)
    is_over: bool = False
    transaction: str | None = None
    calls: int = 0

    @property
    def place(self) -> str:
        """What is read, as the prompt shows it."""
        if self.transaction is not None:
            return f"{self.branch} in a transaction"
        return self.branch if self.as_of is None else f"{self.branch} as of {self.as_of}"

    def catalog(self) -> Catalog:
        """Return the schema of what is read, for completion."""
        return read_catalog(self.backend, self.branch, self.as_of)

    def run(self, text: str) -> None:
        """Run one input: a command that begins with a colon, or a statement.

        Raises:
            OmnigraphError: it cannot be run; places are those of the input.
        """
        text = text.strip()
        if not text or text == ";":
            return
        if text.startswith(":"):
            self._command(text)
            return
        statement = Statement.of(text, self.params)
        try:
            self._execute(statement)
        except DiagnosticError as problem:
            raise statement.placed(problem) from problem

    def run_shown(self, text: str) -> int:
        """Run one input and show the error that it ends with, if any; return its exit code."""
        try:
            self.run(text)
        except OmnigraphError as problem:
            TextOutput().show_error(problem)
            return problem.kind.exit_code
        return 0

    def _execute(self, statement: Statement) -> None:
        declared = statement.declaration()
        if not declared.is_mutation:
            write_result(self._execute_call(self._query(statement)), ResultFormat.TABLE, self.out)
            return
        if self.as_of is not None:
            raise usage_error(
                f"the state as of {self.as_of} can only be read",
                value=self.as_of,
                expected="the newest state",
                hint=f":as-of {_NEWEST} returns to the newest state of branch {self.branch}",
            )
        request = MutateRequest(
            text=statement.source,
            params=self._given(statement),
            params_form="strict",
            branch=self.branch,
            actor=self.actor,
            message=self.message,
            source_name=SOURCE,
        )
        done = execute_asking(self._execute_call, request)
        show_mutation(done, as_json=False, is_pending=self.transaction is not None)

    def _execute_call(self, request: QueryRequest | MutateRequest) -> Any:
        """Execute a statement, in the transaction if one is open, which knows branch and actor."""
        if self.transaction is None:
            call: Request[Any] = request
            return self.backend.execute(call)
        bare = replace(request, branch=MAIN)
        call = replace(bare, actor=None, message=None) if isinstance(bare, MutateRequest) else bare
        done = self.backend.execute(CallInTransactionRequest(transaction=self.transaction, call=call))
        self.calls += 1
        return done

    def _query(self, statement: Statement) -> QueryRequest:
        return QueryRequest(
            text=statement.source,
            params=self._given(statement),
            params_form="strict",
            branch=self.branch,
            at=self.as_of,
            source_name=SOURCE,
        )

    def _given(self, statement: Statement) -> dict[str, Any] | None:
        """The parameters that a statement declares, of those that are set."""
        declared = {parameter.name for parameter in statement.declaration().parameters}
        return {name: value for name, value in self.params.items() if name in declared} or None

    def _command(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        name = word.removeprefix(":").removesuffix(";")
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean :{near[0]}?" if near else "see :help"
            raise usage_error(f"unknown command :{name}", value=word, expected="a command of the shell", hint=hint)
        COMMANDS[name].run(self, rest.strip())

    def _show(self, lines: Sequence[str]) -> None:
        for line in lines:
            write_line(line, self.out)

    def switch_branch(self, rest: str) -> None:
        """Work on another branch, or list them."""
        if not rest:
            names = sorted(str(status.name) for status in self.backend.execute(ListBranchesRequest()))
            self._show([f"{'*' if name == self.branch else ' '} {name}" for name in names])
            return
        self._refuse_open("another branch")
        name = str(BranchName.parse(rest))
        # A branch that does not exist is refused now, not by the next statement.
        self.backend.execute(ReadStateRequest(branch=name))
        self.branch, self.as_of = name, None

    def read_as_of(self, rest: str) -> None:
        """Read an earlier state, or say which is read."""
        if not rest:
            self._show([f"reading {self.place}"])
            return
        self._refuse_open("another state")
        if rest == _NEWEST:
            self.as_of = None
            return
        self.backend.execute(ResolveRefRequest(ref=rest, branch=self.branch))
        self.as_of = rest

    def explain(self, rest: str) -> None:
        """Show how a read would run."""
        if not rest:
            raise usage_error("nothing to explain", expected="a read after :explain")
        statement = Statement.of(rest, self.params)
        try:
            statement.declaration()
            explanation = self.backend.execute(ExplainRequest.of(self._query(statement), run=False))
        except DiagnosticError as problem:
            raise statement.placed(problem) from problem
        self._show(explanation.describe().splitlines())

    def set_param(self, rest: str) -> None:
        """Set or remove a parameter, or list them."""
        if not rest:
            self._show([f"${name} = {show_value(value)}" for name, value in self.params.items()] or ["no parameters"])
            return
        name, equals, value = rest.partition("=")
        name = name.strip().removeprefix("$")
        if not name.isidentifier():
            raise usage_error(f"invalid parameter '{rest}'", value=rest, expected=":param NAME=VALUE")
        if not equals:
            self.params.pop(name, None)
            return
        self.params[name] = parameter_value(value.strip(), "a parameter")

    def show_schema(self, rest: str) -> None:
        """Show the schema of what is read."""
        del rest
        state = self.backend.execute(ReadStateRequest(branch=self.branch, at=self.as_of)).state
        self._show(state.schema.source.rstrip("\n").split("\n"))

    def show_help(self, rest: str) -> None:
        """Show what can be typed."""
        del rest
        told = [(f":{name} {command.takes}".rstrip(), command.about) for name, command in COMMANDS.items()]
        width = max(len(head) for head, _ in told)
        self._show(
            [
                "A statement is the body of a query, such as",
                "  match { $p: Person } return { $p.name }",
                '  insert Person { name: "Ada" }',
                "or a whole declaration. A semicolon or an empty line ends it; Alt-Enter starts a new line.",
                "",
                *(f"{head.ljust(width)}  {about}" for head, about in told),
            ]
        )

    def begin(self, rest: str) -> None:
        """Begin a transaction; what is given is the message of its commit."""
        self._refuse_open("another transaction")
        if self.as_of is not None:
            raise usage_error(
                f"the state as of {self.as_of} can only be read", value=self.as_of, expected="the newest state"
            )
        request = BeginTransactionRequest(branch=self.branch, actor=self.actor, message=rest or self.message)
        self.transaction, self.calls = self.backend.execute(request).transaction, 0

    def commit(self, rest: str) -> None:
        """Publish the transaction as one commit."""
        del rest
        request = CommitTransactionRequest(transaction=self._open_transaction(), seen=self.calls)
        self.transaction = None
        done = self.backend.execute(request)
        made = "nothing to change" if done.commit is None else f"commit {done.commit.id}"
        self._show([f"committed {counted(len(done.calls), 'statement')} to {done.branch}: {made}"])

    def rollback(self, rest: str) -> None:
        """Forget the transaction."""
        del rest
        request = RollbackTransactionRequest(transaction=self._open_transaction())
        self.transaction = None
        self.backend.execute(request)
        self._show([f"rolled back; branch {self.branch} is as it was"])

    def finish(self) -> None:
        """End the conversation.

        Raises:
            UsageError: a transaction is open, and nothing of it is kept.
        """
        if self.transaction is not None:
            self.rollback("")
            raise usage_error(
                "the shell ended inside a transaction, which was rolled back",
                expected=":commit or :rollback",
                hint=":commit publishes a transaction",
            )

    def _open_transaction(self) -> str:
        if self.transaction is None:
            raise usage_error("no transaction is open", expected=":begin before it", hint=":begin opens one")
        return self.transaction

    def _refuse_open(self, what: str) -> None:
        if self.transaction is not None:
            raise usage_error(
                f"a transaction is open; {what} is possible after its end",
                expected=":commit or :rollback",
                hint=":commit publishes the transaction, :rollback discards it",
            )

    def leave(self, rest: str) -> None:
        """End the conversation."""
        del rest
        self.is_over = True


COMMANDS: Mapping[str, ShellCommand] = {
    "branch": ShellCommand(takes="[NAME]", about="work on another branch; list them", run=ShellSession.switch_branch),
    "as-of": ShellCommand(
        takes="[REF]",
        about="read an earlier state: a commit id, main~3, tag:v1 or @TIME; now is the newest",
        run=ShellSession.read_as_of,
    ),
    "explain": ShellCommand(takes="QUERY", about="show how a read would run", run=ShellSession.explain),
    "param": ShellCommand(
        takes="[NAME=VALUE]", about="set a parameter; NAME alone removes it", run=ShellSession.set_param
    ),
    "begin": ShellCommand(
        takes="[MESSAGE]", about="collect statements as one commit, until :commit", run=ShellSession.begin
    ),
    "commit": ShellCommand(takes="", about="publish the collected statements", run=ShellSession.commit),
    "rollback": ShellCommand(takes="", about="discard the collected statements", run=ShellSession.rollback),
    "schema": ShellCommand(takes="", about="show the schema", run=ShellSession.show_schema),
    "help": ShellCommand(takes="", about="show this", run=ShellSession.show_help),
    "quit": ShellCommand(takes="", about="leave the shell; Ctrl-D does so too", run=ShellSession.leave),
}
