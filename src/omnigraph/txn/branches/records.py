"""Small named records that come and go, such as refs of branches and tags, safe from any number of processes.

Each life of a name has a number. Creating is a put-if-absent of ``<name>/<n>.json`` with the number after the last
one known; ending that life is a put of ``<name>/<n>.gone``. So whoever ends a record can only end the one it looked
at: a slow deletion never hits a later record of the same name. A number is dead once it or a higher one has ended, so
that of a name that ended only the last ``.gone`` needs to stay.

A mark is written before the thing it stands for and may outlive it, so it only says where to look. Looking there
costs a deletion one listing, however many branches and tags a graph has. Main cannot be deleted and needs no marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Literal

from omnigraph.errors import FormatMismatch, ManifestCorruptError
from omnigraph.records import record
from omnigraph.store.control import ControlObjects
from omnigraph.txn.branches.incarnation import BranchIncarnation
from omnigraph.values.damage import WAY_OUT, DamagedKind, DamagedRecord
from omnigraph.values.patterns import late_pattern

_FILE = late_pattern(r"(?P<number>[0-9]{1,18})\.(?P<what>json|gone)")


@record
class Generations:
    """What storage holds of one name: the number that is alive, and every number that was ever used."""

    live: int | None = None
    numbers: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()

    @property
    def next_number(self) -> int:
        """The number of the next life."""
        return max(self.numbers, default=0) + 1


@record
class NamedRecord:
    """One life of a name and what was written at its birth."""

    name: str
    number: int
    data: bytes = field(repr=False)


class NamedObjects:
    """The records below one folder of the graph."""

    def __init__(self, control: ControlObjects, folder: str, *, is_durable: bool) -> None:
        self._control = control
        self._folder = folder
        self._is_durable = is_durable

    def survey(self) -> Mapping[str, Generations]:
        """Return every name that is or was in use; one listing."""
        return _lives(self._control.list_keys(self._folder))

    def find(self, name: str) -> NamedRecord | None:
        """Return the living record of a name, or None."""
        missed: int | None = None
        while True:
            lives = self.lives(name)
            if lives.live is None or lives.live == missed:
                return None
            data = self._control.get(self.key(name, lives.live))
            if data is not None:
                return NamedRecord(name=name, number=lives.live, data=data)
            # It ended between the two calls, and the name may have begun another life since.
            missed = lives.live

    def lives(self, name: str) -> Generations:
        """Return what storage holds of one name; one listing."""
        return _lives(self._control.list_keys(f"{self._folder}/{_encoded(name)}")).get(name, Generations())

    def damaged(
        self, kind: DamagedKind, read: Callable[[NamedRecord], object]
    ) -> Iterator[tuple[DamagedRecord, NamedRecord]]:
        """Yield the living records that ``read`` cannot understand, by name."""
        for name in sorted(self.survey()):
            one = self.find(name)
            if one is None:
                continue
            try:
                read(one)
            except ManifestCorruptError as error:
                yield DamagedRecord.of(kind, name, self.key(name, one.number), error), one

    def refuse_other(self, one: NamedRecord, name: str) -> None:
        """Refuse a record that says it is of another name than its file.

        Raises:
            ManifestCorruptError: it does.
        """
        if name != one.name:
            key = self.key(one.name, one.number)
            details = FormatMismatch(what=key, expected=f"the record of '{one.name}'", found=f"that of '{name}'")
            raise ManifestCorruptError(f"'{key}' holds another record", details=details, hint=WAY_OUT)

    def put_back(self, name: str, number: int, data: bytes) -> None:
        """Write the record of a life again, unless it has ended."""
        if max(self.lives(name).ended, default=0) < number:
            self._control.put(self.key(name, number), data, sync=self._is_durable)

    def drop(self, one: NamedRecord) -> None:
        """End a life whose record says nothing; harmless when that was done."""
        self.end(one.name, one.number)
        self.sweep(one.name, one.number)

    def remains(self, name: str) -> tuple[NamedRecord, ...]:
        """Return the records of lives that ended without being swept."""
        lives = self.lives(name)
        found = ((number, self._control.get(self.key(name, number))) for number in sorted(lives.ended))
        return tuple(NamedRecord(name=name, number=number, data=data) for number, data in found if data is not None)

    def create(self, name: str, number: int, data: bytes) -> bool:
        """Begin a life; False when somebody else did. The caller must survey afterwards: it may have ended already."""
        key = self.key(name, number)
        if self._control.put_if_absent(key, data, sync=self._is_durable):
            return True
        # The answer to a put that landed may have been lost and the put repeated.
        return self._control.get(key) == data

    def end(self, name: str, number: int) -> None:
        """End one life for everybody, for ever; harmless when it has ended."""
        self._control.put_if_absent(self._gone_key(name, number), b"{}", sync=self._is_durable)

    def sweep(self, name: str, number: int) -> None:
        """Remove the record of a life that has ended; that it has stays known, and says the same of those before."""
        self._control.delete(self.key(name, number))
        if number > 1:
            self._control.delete(self._gone_key(name, number - 1))

    def leftovers(self) -> tuple[str, ...]:
        """Return the keys of what lives that ended have left and nobody needs: that the last one ended stays known."""
        found: list[str] = []
        for name, lives in self.survey().items():
            last = max(lives.ended, default=0)
            found += [self.key(name, number) for number in sorted(lives.numbers) if number <= last]
            found += [self._gone_key(name, number) for number in sorted(lives.ended) if number < last]
        return tuple(found)

    def key(self, name: str, number: int) -> str:
        """Return where the record of a life is stored."""
        return f"{self._folder}/{_encoded(name)}/{number}.json"

    def _gone_key(self, name: str, number: int) -> str:
        return f"{self._folder}/{_encoded(name)}/{number}.gone"


def _encoded(name: str) -> str:
    # A comma cannot occur in a name, so the mapping is one to one and every name is one folder.
    return name.replace("/", ",")


def _lives(keys: Iterable[str]) -> dict[str, Generations]:
    written: dict[str, set[int]] = {}
    ended: dict[str, set[int]] = {}
    for key in keys:
        folder, _, file = key.rpartition("/")
        match = _FILE.fullmatch(file)
        if match is None:
            continue
        name = folder.rpartition("/")[2].replace(",", "/")
        chosen = written if match["what"] == "json" else ended
        chosen.setdefault(name, set()).add(int(match["number"]))
    return {
        name: Generations(
            live=_live(written.get(name, set()), ended.get(name, set())),
            numbers=frozenset(written.get(name, set()) | ended.get(name, set())),
            ended=frozenset(ended.get(name, set())),
        )
        for name in written.keys() | ended.keys()
    }


def _live(written: set[int], ended: set[int]) -> int | None:
    newest = max(written, default=0)
    return newest if newest > max(ended, default=0) else None


DEPENDANTS_PREFIX = "__dependants"

DependantKind = Literal["branch", "tag", "merge"]
_KINDS: dict[str, DependantKind] = {"branch": "branch", "tag": "tag", "merge": "merge"}


@record
class Dependant:
    """A branch, tag or merge that may need another branch; ``identity`` tells it from a later one of the same name.

    Branches and tags keep it from being deleted. A merge, whose name is its target and whose identity its commit, only
    keeps its states from being removed with it.
    """

    kind: DependantKind
    name: str
    identity: str


class DependantMarks:
    """The marks of one graph."""

    def __init__(self, control: ControlObjects, *, is_durable: bool) -> None:
        self._control = control
        self._is_durable = is_durable

    def add(self, line: BranchIncarnation, dependant: Dependant) -> None:
        """Say that ``dependant`` is about to need a branch."""
        if not line.name.is_main:
            self._control.put(_key(line, dependant), b"{}", sync=self._is_durable)

    def remove(self, line: BranchIncarnation, dependant: Dependant) -> None:
        """Take a mark back, when the thing it stood for is gone."""
        if not line.name.is_main:
            self._control.delete(_key(line, dependant))

    def of(self, line: BranchIncarnation) -> tuple[Dependant, ...]:
        """Return whoever may need a branch, by name."""
        found = []
        for key in self._control.list_keys(_folder(line)):
            kind, _, rest = key.rpartition("/")[2].removesuffix(".json").partition("~")
            name, _, identity = rest.rpartition("~")
            known = _KINDS.get(kind)
            if known is not None:
                found.append(Dependant(kind=known, name=name.replace(",", "/"), identity=identity))
        return tuple(found)

    def clear(self, line: BranchIncarnation) -> None:
        """Remove every mark of a branch that is gone."""
        self._control.delete_prefix(_folder(line))


def _folder(line: BranchIncarnation) -> str:
    return f"{DEPENDANTS_PREFIX}/{line.name.replace('/', ',')}~{line.incarnation}"


def _key(line: BranchIncarnation, dependant: Dependant) -> str:
    return f"{_folder(line)}/{dependant.kind}~{dependant.name.replace('/', ',')}~{dependant.identity}.json"
