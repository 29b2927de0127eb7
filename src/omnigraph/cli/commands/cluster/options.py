"""Options that the commands about clusters share."""

from __future__ import annotations

from typing import Annotated

import typer

ConfigDir = Annotated[
    str, typer.Option("--config", metavar="DIR", help="The directory with cluster.yaml; by default the current one.")
]
