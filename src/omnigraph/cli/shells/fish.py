"""The script of fish: a line per word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.cli.shells.words import CommandWords, OptionWords

_HEAD = """\
# Completion of omnigraph in fish; print it again after an upgrade.
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
        yield f"{right_after} -f -a {_words(command.values, command.names)}"
    after = " ".join(["__omnigraph_after", *command.path]) if command.path else place
    for option in command.options:
        yield f"complete -c omnigraph -n '{after}' {_option(option)} -d {_quote(option.summary)}"


def _option(option: OptionWords) -> str:
    parts = [
        f"-l {spelling.removeprefix('--')}" if spelling.startswith("--") else f"-s {spelling.removeprefix('-')}"
        for spelling in option.spellings
    ]
    if option.values or option.names:
        parts.append(f"-x -a {_words(option.values, option.names)}")
    elif option.takes_value:
        parts.append("-r")
    return " ".join(parts)


def _words(values: Sequence[str], names: str | None) -> str:
    if names is not None:
        return f"'(omnigraph completion --names {names} 2>/dev/null)'"
    return _quote(" ".join(values))


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
