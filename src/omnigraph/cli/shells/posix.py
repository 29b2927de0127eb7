"""The scripts of bash and zsh: the same decision in two dialects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.cli.shells.words import CommandWords, OptionWords

_BASH = """\
# Completion of omnigraph in bash; print it again after an upgrade.
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
# Completion of omnigraph in zsh; print it again after an upgrade.
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
                yield f'        {_any(command, option)}) known="{_words(option.values, option.names)}"; return ;;'
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
            yield f'        "{name}"/*) {follows} && known="{_words(command.values, command.names)}" ;;'
    yield "    esac"
    yield "}"


def _any(command: CommandWords, option: OptionWords) -> str:
    name = " ".join(command.path)
    return "|".join(f'"{name} {spelling}"' for spelling in option.spellings)


def _words(values: Sequence[str], names: str | None) -> str:
    if names is not None:
        return f"$(omnigraph completion --names {names} 2>/dev/null)"
    return " ".join(values)
