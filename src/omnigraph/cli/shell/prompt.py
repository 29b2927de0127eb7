"""The prompt on a terminal: editing over several lines, history, completion."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.shortcuts import CompleteStyle

from omnigraph.catalog import Catalog
from omnigraph.cli.operator.config import config_path
from omnigraph.cli.output import write_interrupt, write_line
from omnigraph.cli.shell.session import COMMANDS, ShellSession
from omnigraph.cli.shell.statements import Statement
from omnigraph.errors import OmnigraphError
from omnigraph.ir.complete import complete
from omnigraph.operations.history import ListBranchesRequest

HISTORY_FILE = "shell_history"


class ShellCompleter(Completer):
    """Completes commands of the shell, branches, and whatever may stand in a statement."""

    def __init__(self, session: ShellSession) -> None:
        self._session = session
        self._catalog: Catalog | None = None

    def refresh(self) -> None:
        """Look at the schema anew: the input before may have moved to another state."""
        with suppress(OmnigraphError):
            self._catalog = self._session.catalog()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what may stand where the cursor is."""
        del complete_event
        before = document.text_before_cursor.lstrip()
        if not before.startswith(":"):
            return self._of_statement(before)
        word, space, rest = before.partition(" ")
        if not space:
            return _starting([f":{name}" for name in COMMANDS], word)
        if word == ":explain":
            return self._of_statement(rest)
        return _starting(self._branches(), rest) if word == ":branch" else ()

    def _of_statement(self, typed: str) -> Iterable[Completion]:
        if self._catalog is None:
            return
        head = Statement.of(typed, self._session.params).prefix
        position = len(head) + len(typed)
        for found in complete(head + typed, position, self._catalog):
            yield Completion(found.text, start_position=found.start - position, display_meta=found.detail)

    def _branches(self) -> list[str]:
        try:
            return sorted(str(status.name) for status in self._session.backend.execute(ListBranchesRequest()))
        except OmnigraphError:
            return []


def _starting(words: Iterable[str], typed: str) -> Iterable[Completion]:
    return (Completion(word, start_position=-len(typed)) for word in words if word.startswith(typed))


def is_ready(text: str) -> bool:
    """Whether Enter ends the input: a command, an empty line behind it, a semicolon, or a statement that can end."""
    if text.lstrip().startswith(":") or text.rstrip(" \t").endswith(("\n", ";")):
        return True
    return not text.strip() or not Statement.of(text).is_unfinished()


def open_history(path: Path | None = None) -> History:
    """Return the history of earlier shells, readable by its owner only; of this one where no file can be kept."""
    path = config_path().parent / HISTORY_FILE if path is None else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def converse(session: ShellSession, *, given: Input | None = None, shown: Output | None = None) -> int:
    """Ask for inputs and run them until the person leaves; an error does not end the conversation.

    Args:
        session: what the inputs are run with.
        given: where keys come from, the terminal when None.
        shown: where the prompt is drawn, the terminal when None.
    """
    completer = ShellCompleter(session)
    prompt: PromptSession[str] = PromptSession(
        history=open_history(),
        completer=completer,
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=lambda width, _number, _wrapped: "… ".rjust(width),
        input=given,
        output=shown,
    )
    while not session.is_over:
        completer.refresh()
        try:
            text = prompt.prompt(f"{session.place}> ")
        except KeyboardInterrupt:
            # The line is given up, as in other shells.
            continue
        except EOFError:
            break
        try:
            session.run_shown(text)
        except KeyboardInterrupt as interrupt:
            if not write_interrupt(interrupt):
                write_line("interrupted", sys.stderr)
    return 0


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def ends() -> bool:
        from prompt_toolkit.application import get_app  # noqa: PLC0415 - known while the prompt runs

        buffer = get_app().current_buffer
        return buffer.document.is_cursor_at_the_end and is_ready(buffer.text)

    @keys.add("enter", filter=ends)
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    return keys
