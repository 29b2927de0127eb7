"""``Printable``: results that show themselves, in a prompt, by ``print`` and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.values.visible import make_visible

# A prompt shows one line; what is longer is for ``print``.
_SHORT = 120


class Printable:
    """A result with lines for people: ``repr`` shows the first of them, ``warnings`` follow the others."""

    __slots__ = ()

    def lines(self) -> Iterable[str]:
        """Return what the result says, a line for each fact."""
        raise NotImplementedError

    def __str__(self) -> str:
        warnings: Iterable[object] = getattr(self, "warnings", ())
        return "\n".join(map(make_visible, [*self.lines(), *(f"warning: {warning}" for warning in warnings)]))

    def __repr__(self) -> str:
        first = make_visible(next(iter(self.lines()), ""))
        short = first if len(first) <= _SHORT else f"{first[: _SHORT - 1]}…"
        return f"<{type(self).__name__}: {short}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415 - for notebooks

        return f"<pre>{escape(str(self))}</pre>"
