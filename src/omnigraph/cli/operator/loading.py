"""Where the operator config is, and the one reading of it that a command does.

The YAML library is loaded only where there is a config to read.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from omnigraph.cli.files import read_input
from omnigraph.cli.operator.config import OperatorConfig
from omnigraph.cli.output import choose_output
from omnigraph.errors import FileMissingError

HOME_VARIABLE = "OMNIGRAPH_HOME"
FILE_NAME = "config.yaml"
_FOLDER = "~/.omnigraph"


def config_path() -> Path:
    """Return where the config is looked for."""
    written = os.environ.get(HOME_VARIABLE) or _FOLDER
    try:
        return Path(written).expanduser() / FILE_NAME
    except RuntimeError:
        return Path(written) / FILE_NAME


def operator_config() -> OperatorConfig:
    """Return the config, empty if there is no file; what is ignored in it is said on standard error, once.

    Raises:
        ConfigError: the file is no config.
        FileAccessError, SourceEncodingError, SourceTooLargeError: it cannot be read, or is no text that could be one.
    """
    return _loaded(config_path())


@cache
def _loaded(path: Path) -> OperatorConfig:
    try:
        read = read_input(str(path))
    except FileMissingError:
        return OperatorConfig(path=path)
    from omnigraph.cli.operator.reading import parse_config  # noqa: PLC0415 - most machines have no config

    config = parse_config(read.data, path)
    output = choose_output(as_json=False)
    for warning in config.warnings:
        output.warn(warning)
    return config
