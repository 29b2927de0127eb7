"""Golden cases: files that hold commands and all that the commands said.

A case begins with ``# `` lines that say what it shows and with ``given NAME``, the graph that it starts from. Every
step is a command after ``$ ``, its exit code, standard output as it is, and standard error with ``! `` before each
line. What differs from run to run stands there as a placeholder; the same value has the same placeholder throughout
a case, and a placeholder in a later command means the value.

The words of errors stand once, where a case first shows one as text: later ones and JSON have ``<words>`` instead.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.errors import BY_CODE, Kind
from tests.e2e.process import Outcome, omnigraph

# An id that no graph has; cases write it out.
NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
_NUMBERED = {
    "id": re.compile(rf"\b(?!{NOBODY})[0-7][0-9A-HJKMNP-TV-Z]{{25}}\b"),
    "cursor": re.compile(r"(?<![\w/-])[A-Za-z0-9_-]{48,}={0,2}"),
    "key": re.compile(r"(?<![\w-])[A-Za-z0-9_-]{43}(?![\w-])"),
    "source": re.compile(r"\b[0-9a-f]{32}\b"),
    "mark": re.compile(r"(?<=-[0-9a-f]-[0-9a-f]-)[0-9a-z]{8}\b"),
}
# Only what a group holds is replaced.
_CHANGING = {
    "size": re.compile(r'"\w*bytes\w*": (\d+)|\b(\d+) bytes'),
    "time": re.compile(r"\b(1[6-9]\d{14}|1[6-9]\d{11}|20(?:2[6-9]|[3-9]\d)-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?)(?!\d)"),
    "seconds": re.compile(r'"\w*(?:elapsed|waited|seconds)\w*": (\d+(?:\.\d+)?)|\bin (\d+\.\d+(?:ns|µs|ms|s))\b'),
    "ms": re.compile(r"(?m)\d ( *\d+\.\d\d)$|\btook (\d+) ms\b|\"\w*ms\": (\d+(?:\.\d+)?)"),
    "file": re.compile(r"/data/(\w+)\.lance"),
    "process": re.compile(r"([\w.-]+ pid \d+)"),
}
_MARKS = ("$ ", "# exit ", "! ")
_WORDS = re.compile(r'(?m)^(! (?:error|hint): ).*$|^( *"(?:message|hint|suggestion)": )"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command as the case writes it, and how it ended when the case was written."""

    command: str
    exit_code: int
    lines: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The command's words without the settings before it."""
        words = shlex.split(self.command)
        while words and re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        return words

    @property
    def is_json(self) -> bool:
        """Whether one JSON document was asked for."""
        return "--json" in self.words

    @property
    def kind(self) -> Kind | None:
        """The kind of the error that it ended with, None if it was none of ours."""
        for line in self.lines:
            told = re.fullmatch(r'! code: (\S+)|    "code": "(\S+)",', line)
            if told and (told[1] or told[2]) in BY_CODE:
                return BY_CODE[told[1] or told[2]].row.kind
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a file holds."""

    head: str
    given: str
    steps: tuple[Step, ...]

    @classmethod
    def read(cls, path: Path) -> Case:
        """Return the case of a file; of one that is only commands yet, too."""
        head, given, steps = [], "", []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], [-1], []))
            elif not steps:
                head.append(line)
                given = line.removeprefix("given ") if line.startswith("given ") else given
            elif line.startswith("# exit "):
                steps[-1][1][:] = [int(line.removeprefix("# exit "))]
            else:
                steps[-1][2].append(line)
        made = (Step(command=command, exit_code=code, lines=tuple(lines)) for command, (code,), lines in steps)
        return cls(head="\n".join(head).strip(), given=given, steps=tuple(made))


@dataclass(slots=True, kw_only=True)
class Ground:
    """Where a case runs: its folder, the environment of its commands, and which placeholder means what."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)

    def run(self, case: Case) -> str:
        """Run all steps and return the case as it should stand in its file."""
        self.values |= {"<here>": str(self.folder)}
        told, has_words = [f"{case.head}\n"], False
        for step in case.steps:
            code, said = self._run_step(step)
            if code and (has_words or step.is_json):
                said = without_words(said)
            has_words = has_words or (code != 0 and not step.is_json)
            told.append(f"$ {step.command}\n# exit {code}\n{said}")
        return "\n".join(told)

    def _run_step(self, step: Step) -> tuple[int, str]:
        ended = self._command(step)
        if step.is_json:
            # Exactly one document, whatever happened.
            json.loads(ended.out)
        out, err = self._plain(ended.out), self._plain(ended.err)
        assert not any(line.startswith(_MARKS) for line in out.splitlines()), out
        assert all(text.endswith("\n") for text in (out, err) if text), (out, err)
        marked = "".join(f"! {line}\n" for line in err.splitlines())
        return ended.code, f"{out}{marked}"

    def _command(self, step: Step) -> Outcome:
        words = [self._meant(word) for word in shlex.split(step.command)]
        settings, stdin = dict(self.environment), ""
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            settings[name] = value
        if "<" in words:
            words, (path,) = words[: words.index("<")], words[words.index("<") + 1 :]
            stdin = (self.folder / path).read_text(encoding="utf-8")
        if words[0] == "cat":
            return Outcome(code=0, out=(self.folder / words[1]).read_text(encoding="utf-8"), err="")
        assert words[0] == "omnigraph", step.command
        return omnigraph(*words[1:], cwd=self.folder, stdin=stdin, **settings)

    def _meant(self, word: str) -> str:
        return re.sub(r"<[a-z0-9-]+>", lambda found: self.values[found[0]], word)

    def _plain(self, text: str) -> str:
        known = {value: name for name, value in self.values.items()}
        for value in sorted(known, key=len, reverse=True):
            text = text.replace(value, known[value])
        for name, pattern in _NUMBERED.items():
            text = pattern.sub(lambda found, name=name: self._numbered(name, found[0]), text)
        for name, pattern in _CHANGING.items():
            text = pattern.sub(lambda found, name=name: _hidden(found, f"<{name}>"), text)
        return text

    def _numbered(self, name: str, value: str) -> str:
        for placeholder, known in self.values.items():
            if known == value:
                return placeholder
        count = sum(placeholder.startswith(f"<{name}-") for placeholder in self.values)
        self.values[f"<{name}-{count + 1}>"] = value
        return f"<{name}-{count + 1}>"


def all_cases(root: Path) -> Iterator[tuple[str, Case]]:
    """Every case with its name, ``command/case``."""
    for path in sorted(root.glob("*/*.txt")):
        yield f"{path.parent.name}/{path.stem}", Case.read(path)


def without_words(said: str) -> str:
    """What a command said that failed, its codes and its form, without the sentences."""
    return _WORDS.sub(lambda found: f"{found[1]}<words>" if found[1] else f'{found[2]}"<words>"', said)


def _hidden(found: re.Match[str], placeholder: str) -> str:
    value = next(group for group in found.groups() if group is not None)
    return found[0].replace(value, placeholder, 1)
