"""``omnigraph completion``: prints what completes commands in a shell."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, assert_never

import typer

from omnigraph.cli.lazy import new_app
from omnigraph.cli.operator.config import operator_config
from omnigraph.cli.output import write_line
from omnigraph.cli.usage import usage_error
from omnigraph.records import record

DefinedNames = Literal["profiles", "aliases"]

_HELP = ("-h", "--help")
# Values that commands check themselves, for messages of their own.
_CHECKED: Mapping[str, tuple[str, ...]] = {
    "--kind": ("node", "edge"),
    "--op": ("insert", "update", "delete"),
    "--resolve": ("ours", "theirs", "properties"),
}
_NAMED_OPTIONS: Mapping[str, DefinedNames] = {"--profile": "profiles"}
_NAMED_ARGUMENTS: Mapping[str, DefinedNames] = {"alias": "aliases", "profile show": "profiles"}


@record
class OptionWords:
    """An option: its spellings, whether a value follows, which values are known, and what it is for."""

    spellings: tuple[str, ...]
    takes_value: bool = False
    values: tuple[str, ...] = ()
    names: DefinedNames | None = None
    summary: str = ""


@record
class CommandWords:
    """A command by its path of words, with what may follow it."""

    path: tuple[str, ...]
    summary: str = ""
    commands: tuple[tuple[str, str], ...] = ()
    options: tuple[OptionWords, ...] = ()
    values: tuple[str, ...] = ()
    names: DefinedNames | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """All spellings of all options."""
        return tuple(spelling for option in self.options for spelling in option.spellings)


def collect_words(root: Any, context: Any) -> list[CommandWords]:
    """Return every command, groups before their members; this loads the modules of all of them."""
    return list(_walk(root, context, (), ""))


def _walk(command: Any, context: Any, path: tuple[str, ...], summary: str) -> Iterator[CommandWords]:
    options = tuple(_option(one) for one in command.params if one.param_type_name == "option" and not one.hidden)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    entries: Mapping[str, Any] = getattr(command, "entries", {})
    yield CommandWords(
        path=path,
        summary=summary,
        commands=tuple((name, entry.summary) for name, entry in entries.items()),
        options=(*options, OptionWords(spellings=_HELP, summary="Show this message and exit.")),
        values=_values(arguments[0]) if arguments else (),
        names=_NAMED_ARGUMENTS.get(" ".join(path)),
    )
    for name, entry in entries.items():
        yield from _walk(command.get_command(context, name), context, (*path, name), entry.summary)


def _option(parameter: Any) -> OptionWords:
    spellings = tuple(parameter.opts)
    return OptionWords(
        spellings=spellings,
        takes_value=not (parameter.is_flag or parameter.count),
        values=_values(parameter) or _CHECKED.get(spellings[0], ()),
        names=_NAMED_OPTIONS.get(spellings[0]),
        summary=parameter.help or "",
    )


def _values(parameter: Any) -> tuple[str, ...]:
    # Where the argument parser keeps the values of an enumeration differs from version to version.
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    choices = getattr(getattr(parameter, "type", None), "choices", ())
    return tuple(str(getattr(choice, "value", choice)) for choice in choices)


_HEAD = """\
# omnigraph completion for fish; generate it again after an upgrade.
function __omnigraph_after
    set -l before (commandline -opc)
    set -e before[1]
    set -l many (count $argv)
    test (count $before) -ge $many; or return 1
    test $many -eq 0; or test "$before[1..$many]" = "$argv"
end
function __omnigraph_right_after
    set -l before (commandline -opc)
    test (count $before) -eq (math (count $argv) + 1); and __omnigraph_after $argv
end"""


def fish_script(commands: Sequence[CommandWords]) -> str:
    """Return the script for fish."""
    return "\n".join([_HEAD, *(line for command in commands for line in _lines(command))]) + "\n"


def _lines(command: CommandWords) -> Iterator[str]:
    place = " ".join(["__omnigraph_right_after", *command.path])
    right_after = f"complete -c omnigraph -n '{place}'"
    for name, summary in command.commands:
        yield f"{right_after} -f -a {name} -d {_quote(summary)}"
    if command.values or command.names:
        yield f"{right_after} -f -a {_fish_words(command.values, command.names)}"
    after = " ".join(["__omnigraph_after", *command.path]) if command.path else place
    for option in command.options:
        yield f"complete -c omnigraph -n '{after}' {_fish_option(option)} -d {_quote(option.summary)}"


def _fish_option(option: OptionWords) -> str:
    parts = [
        f"-l {spelling.removeprefix('--')}" if spelling.startswith("--") else f"-s {spelling.removeprefix('-')}"
        for spelling in option.spellings
    ]
    if option.values or option.names:
        parts.append(f"-x -a {_fish_words(option.values, option.names)}")
    elif option.takes_value:
        parts.append("-r")
    return " ".join(parts)


def _fish_words(values: Sequence[str], names: str | None) -> str:
    if names is not None:
        return f"'(omnigraph completion --names {names} 2>/dev/null)'"
    return _quote(" ".join(values))


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_BASH = """\
# omnigraph completion for bash; generate it again after an upgrade.
_omnigraph() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} known=
    COMPREPLY=()
    # An equals sign is a word of its own here.
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD-2]}
    fi
    local command_path= place=$COMP_CWORD
    _omnigraph_path "${COMP_WORDS[@]:1:COMP_CWORD-1}"
    _omnigraph_known
    COMPREPLY=($(compgen -W "$known" -- "$current"))
}
complete -o default -F _omnigraph omnigraph
"""
_ZSH = """\
#compdef omnigraph
# omnigraph completion for zsh; generate it again after an upgrade.
_omnigraph() {
    local current=${words[CURRENT]} previous=${words[CURRENT-1]} known=
    local -a before found
    if [[ $current == --*=* ]]; then
        previous=${current%%=*}
        current=${current#*=}
        compset -P '*='
    fi
    local command_path= place=$((CURRENT - 1))
    before=("${words[@]:1:$((CURRENT - 2))}")
    _omnigraph_path "${before[@]}"
    _omnigraph_known
    found=(${=known})
    if (( ${#found} )); then
        compadd -- "${found[@]}"
    else
        _files
    fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _omnigraph "$@"
else
    compdef _omnigraph omnigraph
fi
"""


def bash_script(commands: Sequence[CommandWords]) -> str:
    """Return the script for bash."""
    return "\n".join([*_decision(commands), _BASH])


def zsh_script(commands: Sequence[CommandWords]) -> str:
    """Return the script for zsh."""
    head, _, rest = _ZSH.partition("\n")
    return "\n".join([head, *_decision(commands), rest])


def _decision(commands: Sequence[CommandWords]) -> Iterator[str]:
    """Two functions in words that both shells understand; they work on the variables of their caller.

    None of these is called ``path``, which zsh ties to the search path of commands.
    """
    groups = [one for one in commands if one.commands and one.path]
    yield "_omnigraph_path() {"
    yield '    case "$1" in'
    yield f'        {"|".join(group.path[0] for group in groups)}) command_path="$1${{2:+ $2}}" ;;'
    yield '        *) command_path="$1" ;;'
    yield "    esac"
    yield "}"
    yield "_omnigraph_known() {"
    # What follows an option that takes a value is that value, known or not.
    yield '    case "$command_path $previous" in'
    for command in commands:
        for option in command.options:
            if option.takes_value:
                yield f'        {_any(command, option)}) known="{_posix_words(option.values, option.names)}"; return ;;'
    yield "    esac"
    yield '    case "$command_path/$current" in'
    for command in commands:
        name = " ".join(command.path)
        yield f'        "{name}"/-*) known="{" ".join(command.spellings)}" ;;'
        inner = " ".join(word for word, _ in command.commands)
        if inner:
            yield f'        "{name}"/*) [ "$place" -eq {len(command.path) + 1} ] && known="{inner}" ;;'
        elif command.values or command.names:
            follows = f'[ "$place" -eq {len(command.path) + 1} ]'
            yield f'        "{name}"/*) {follows} && known="{_posix_words(command.values, command.names)}" ;;'
    yield "    esac"
    yield "}"


def _any(command: CommandWords, option: OptionWords) -> str:
    name = " ".join(command.path)
    return "|".join(f'"{name} {spelling}"' for spelling in option.spellings)


def _posix_words(values: Sequence[str], names: str | None) -> str:
    if names is not None:
        return f"$(omnigraph completion --names {names} 2>/dev/null)"
    return " ".join(values)


app = new_app()

# Shells expand what they are given to complete with, so that only names without a meaning to them are offered.
_PLAIN = re.compile(r"[\w.@:+-]+")


class Shell(StrEnum):
    """A shell that can be told how to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class NameKind(StrEnum):
    """Names that the operator config defines."""

    PROFILES = "profiles"
    ALIASES = "aliases"


@app.command()
def completion(
    context: typer.Context,
    *,
    shell: Annotated[Shell | None, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")] = None,
    names: Annotated[NameKind | None, typer.Option("--names", hidden=True)] = None,
) -> int:
    """Print a shell script that completes commands, options, values, profiles and aliases.

    Save it where the shell looks for completions, or source it; generate it again after an upgrade.
    """
    if names is not None:
        config = operator_config()
        defined = config.profiles if names is NameKind.PROFILES else config.aliases
        for name in filter(_PLAIN.fullmatch, defined):
            write_line(name, sys.stdout)
        return 0
    if shell is None:
        raise usage_error("no shell given", what="shell", expected="bash, zsh or fish")
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
