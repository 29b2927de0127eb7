"""The words of the command line, read from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Literal

from omnigraph.records import record

Names = Literal["profiles", "aliases"]

_HELP = ("-h", "--help")
# Values that commands check themselves, for messages of their own.
_CHECKED: Mapping[str, tuple[str, ...]] = {
    "--kind": ("node", "edge"),
    "--op": ("insert", "update", "delete"),
    "--resolve": ("ours", "theirs", "properties"),
}
_NAMED_OPTIONS: Mapping[str, Names] = {"--profile": "profiles"}
_NAMED_ARGUMENTS: Mapping[str, Names] = {"alias": "aliases", "profile show": "profiles"}


@record
class OptionWords:
    """An option: its spellings, whether a value follows, which values are known, and what it is for."""

    spellings: tuple[str, ...]
    takes_value: bool = False
    values: tuple[str, ...] = ()
    names: Names | None = None
    summary: str = ""


@record
class CommandWords:
    """A command by its path of words, with what may follow it."""

    path: tuple[str, ...]
    summary: str = ""
    commands: tuple[tuple[str, str], ...] = ()
    options: tuple[OptionWords, ...] = ()
    values: tuple[str, ...] = ()
    names: Names | None = None

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
