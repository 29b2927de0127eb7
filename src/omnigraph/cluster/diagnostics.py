"""What is found about a cluster: each finding has a code, a place and a message, and all of them are told at once."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.migration.codes import Severity
from omnigraph.cluster.codes import CODES
from omnigraph.errors import Kind
from omnigraph.records import record

_LABELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARN "}


@record
class ClusterFinding:
    """One finding.

    ``path`` is the place: a file with its line, such as ``cluster.yaml:12``, the address of a resource, or what is
    stored below the storage root.
    """

    code: str
    severity: Severity
    path: str
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        return {"code": self.code, "severity": self.severity.value, "path": self.path, "message": self.message}

    def to_text(self) -> str:
        """Return the finding as a line.

        >>> ClusterFinding(code="cluster_empty", severity=Severity.ERROR, path="state.json", message="empty").to_text()
        'ERROR cluster_empty state.json: empty'
        """
        return f"{_LABELS[self.severity]} {self.code} {self.path}: {self.message}"


class Findings:
    """Findings in the order in which they were made; the same one is kept once."""

    def __init__(self, items: Iterable[ClusterFinding] = ()) -> None:
        self._items: dict[ClusterFinding, None] = dict.fromkeys(items)

    @property
    def items(self) -> tuple[ClusterFinding, ...]:
        """All of them."""
        return tuple(self._items)

    @property
    def errors(self) -> tuple[ClusterFinding, ...]:
        """Those that make a command fail."""
        return tuple(item for item in self._items if item.severity is Severity.ERROR)

    @property
    def has_errors(self) -> bool:
        """Whether one of them makes a command fail."""
        return bool(self.errors)

    @property
    def exit_code(self) -> int:
        """The exit code that a command ends with: 0, or that of the kind of the first error."""
        errors = self.errors
        return CODES[errors[0].code].kind.exit_code if errors else 0

    @property
    def kind(self) -> Kind | None:
        """What the first error means for the caller; None without one."""
        errors = self.errors
        return CODES[errors[0].code].kind if errors else None

    def add(self, code: str, path: str, message: str, *, severity: Severity | None = None) -> ClusterFinding:
        """Note a finding and return it; ``severity`` is that of the code unless given."""
        chosen = CODES[code].severity if severity is None else severity
        found = ClusterFinding(code=code, severity=chosen, path=path, message=message)
        self._items[found] = None
        return found

    def extend(self, items: Iterable[ClusterFinding]) -> None:
        """Note findings that were made elsewhere."""
        self._items |= dict.fromkeys(items)
