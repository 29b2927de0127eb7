"""``omnigraph completion``: prints what completes commands in a shell."""

from __future__ import annotations

import re
import sys
from enum import Enum
from typing import Annotated, assert_never

import typer

from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.loading import operator_config
from omnigraph.cli.output import write_line
from omnigraph.cli.shells.fish import fish_script
from omnigraph.cli.shells.posix import bash_script, zsh_script
from omnigraph.cli.shells.words import CommandWords, collect_words
from omnigraph.errors import BadValue, UsageError

app = new_app()

# Shells expand what they are given to complete with, so that only names without a meaning to them are offered.
_PLAIN = re.compile(r"[\w.@:+-]+")


class Shell(Enum):
    """A shell that can be told how to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Names(Enum):
    """Names that the operator config defines."""

    PROFILES = "profiles"
    ALIASES = "aliases"


@app.command()
def completion(
    context: typer.Context,
    *,
    shell: Annotated[Shell | None, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")] = None,
    names: Annotated[Names | None, typer.Option("--names", hidden=True)] = None,
) -> int:
    """Print the script that completes commands, options, values, profiles and aliases in a shell.

    Keep it where the shell looks for such scripts, or source it; print it again after an upgrade.
    """
    if names is not None:
        config = operator_config()
        defined = config.profiles if names is Names.PROFILES else config.aliases
        for name in filter(_PLAIN.fullmatch, defined):
            write_line(name, sys.stdout)
        return 0
    if shell is None:
        details = BadValue(what="shell", value="", expected="bash, zsh or fish")
        raise UsageError("no shell is named", details=details, hint="give bash, zsh or fish")
    root = context.find_root()
    sys.stdout.write(_script(shell, collect_words(root.command, root)))
    return 0


def _script(shell: Shell, commands: list[CommandWords]) -> str:
    match shell:
        case Shell.BASH:
            return bash_script(commands)
        case Shell.ZSH:
            return zsh_script(commands)
        case Shell.FISH:
            return fish_script(commands)
        case _:
            assert_never(shell)
