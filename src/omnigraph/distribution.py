"""The distribution that installs this package: its name, its version, and what must not be installed beside it.

The package index knows another project under the name of the package, whose files would land in the same folder.
"""

from __future__ import annotations

import os

DISTRIBUTION = "omnigraphdb"
VERSION = "0.1.0"

_STRANGER = "omnigraph"
_SITE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def pip_install(*extras: str) -> str:
    """Return the command that installs the distribution with extras."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"


def stranger_in(folder: str) -> str | None:
    """Return the name and version of the other project, if it is installed in ``folder``."""
    try:
        names = os.listdir(folder)
    except OSError:
        # An archive from which Python imports has nothing installed beside it.
        return None
    for name in names:
        if name.startswith(f"{_STRANGER}-") and name.endswith((".dist-info", ".egg-info")):
            return name.rpartition(".")[0].replace("-", " ", 1)
    return None


def warn_of_stranger(folder: str = _SITE) -> None:
    """Warn if the other project is installed in ``folder``, from which this package is imported."""
    if (stranger := stranger_in(folder)) is not None:
        import warnings  # noqa: PLC0415 - hardly ever needed, and every start would wait for it

        warnings.warn(
            f"{stranger} and {DISTRIBUTION} are installed together and overwrite files of each other: run "
            f"`pip uninstall {_STRANGER}`, then `pip install --force-reinstall {DISTRIBUTION}`",
            RuntimeWarning,
            stacklevel=3,
        )


# Here and not in `__init__.py`, which the other project may have replaced: the command loads this module as well.
warn_of_stranger()
