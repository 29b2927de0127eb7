"""The tokens of the operator, by the name of the server; kept apart from the config, for this user's eyes only."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from pathlib import Path

from omnigraph.cli.operator.config import OperatorConfig, config_path
from omnigraph.errors import BadValue, FileAccessError

FILE_NAME = "credentials"
TOKEN_VARIABLE = "OMNIGRAPH_BEARER_TOKEN"  # noqa: S105 - the name of a variable
NAMED_PREFIX = "OMNIGRAPH_TOKEN_"
_SECTION = re.compile(r"\s*\[(?P<name>[^\]]*)\]\s*(?:#.*)?")
_TOKEN = re.compile(r"\s*token\s*=\s*(?P<value>\"[^\"]*\"|'[^']*'|[^#]*?)\s*(?:#.*)?")


def credentials_path() -> Path:
    """Return where the tokens are kept."""
    return config_path().parent / FILE_NAME


def token_for(config: OperatorConfig, url: str) -> str | None:
    """Return the token to send to an address; one that belongs to no configured server gets only the common one.

    Raises:
        FileAccessError: others may read the file of the tokens, or it cannot be read.
    """
    name = _server_of(config, url)
    if name is not None:
        variable = NAMED_PREFIX + name.upper().replace("-", "_")
        found = os.environ.get(variable) or read_tokens().get(name)
        if found:
            return found
    return os.environ.get(TOKEN_VARIABLE) or None


def _server_of(config: OperatorConfig, url: str) -> str | None:
    """Return the server whose address is the longest prefix of an address, segment by segment."""
    wanted = f"{url.rstrip('/')}/"
    fitting = [(len(base), name) for name, base in config.servers.items() if wanted.startswith(f"{base.rstrip('/')}/")]
    return max(fitting)[1] if fitting else None


def read_tokens() -> dict[str, str]:
    """Return the tokens of the file, by the name of the server.

    Raises:
        FileAccessError: others may read it, or it cannot be read.
    """
    found: dict[str, str] = {}
    section = None
    for line in _lines():
        header, token = _SECTION.fullmatch(line), _TOKEN.fullmatch(line)
        if header is not None:
            section = header["name"].strip()
        elif token is not None and section is not None:
            found[section] = token["value"].strip("\"'")
    return found


def write_token(server: str, token: str | None) -> Path:
    """Put the token of a server into the file, or remove it; everything else stays as it is.

    Raises:
        FileAccessError: others may read the file, or it cannot be read or written.
    """
    kept, is_own = [], False
    for line in _lines():
        header = _SECTION.fullmatch(line)
        if header is not None:
            is_own = header["name"].strip() == server
        if not is_own:
            kept.append(line)
    if token is not None:
        kept += [f"[{server}]", f"token = {token}"]
    elif not credentials_path().exists():
        return credentials_path()
    _replace("".join(f"{line}\n" for line in kept))
    return credentials_path()


def _lines() -> list[str]:
    path = credentials_path()
    try:
        mode = path.stat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            details = BadValue(what="file", value=str(path), expected="mode 0600")
            hint = f"run `chmod 600 {path}`"
            raise FileAccessError(
                f"other users of this machine can read the tokens in '{path}'", details=details, hint=hint
            )
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeError) as problem:
        raise _unusable(path, "readable", problem) from problem


def _replace(text: str) -> None:
    path = credentials_path()
    temporary = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only its owner may read what this creates.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except OSError as problem:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise _unusable(path, "writable", problem) from problem


def _unusable(path: Path, expected: str, problem: Exception) -> FileAccessError:
    why = (getattr(problem, "strerror", None) or "it is not UTF-8 text").lower()
    details = BadValue(what="file", value=str(path), expected=f"a {expected} file")
    return FileAccessError(f"file '{path}' is not {expected}: {why}", details=details)
