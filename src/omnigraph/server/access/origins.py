"""Which hosts and pages a request may name, so that a page cannot reach a local server through a name of its own."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from omnigraph.errors import BadValue, OriginError

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def check_origin(
    host: str | None, origin: str | None, *, bind: str, hosts: Collection[str], is_open: bool = False
) -> None:
    """Return if a request may name a host, and come from a page.

    A server on loopback is reached by the names of loopback, and every server by those that its operator lists and by
    the address where it listens. One that listens elsewhere without such a list is reached by any name, and by pages
    that it serves itself. If it demands no token, it is not reached by a name with a dot: the owner of any
    page can let such a name resolve to the server's address, and never a bare one or the address itself.

    Args:
        host: the header ``Host``.
        origin: the header ``Origin``, which browsers send.
        bind: where the server listens.
        hosts: the names that the operator lists.
        is_open: whether the server demands no token.

    Raises:
        OriginError: it may not.
    """
    known = {*hosts, *(_LOOPBACK if _is_loopback(bind) else ())}
    if known:
        known.add(bind.lower())
    named = _name(f"//{host}") if host else None
    if known and named not in known:
        raise _refused("Host", host, known)
    if not known and is_open and not (named and _is_bare(named)):
        raise _refused("Host", host, ("an address", "a name without a dot"))
    if origin is None:
        return
    page = _name(origin)
    if page is None or (page not in known if known else page != named):
        raise _refused("Origin", origin, known)


def _is_loopback(bind: str) -> bool:
    try:
        return ip_address(bind).is_loopback
    except ValueError:
        return bind.lower() in _LOOPBACK


def _is_bare(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return "." not in name
    return True


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _refused(header: str, value: str | None, known: Collection[str]) -> OriginError:
    shown = (value or "")[:100]
    details = BadValue(what=header, value=shown, expected=", ".join(sorted(known)) or "the server's own name")
    message = f"{header} '{shown}' is not allowed: OMNIGRAPH_MCP_HOSTS does not list it"
    return OriginError(message, details=details)
