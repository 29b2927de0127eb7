"""The page about agents shows files of the example; ``tests/e2e/test_docs_snippets.py`` runs its walk-through."""

from __future__ import annotations

import json
import tomllib

from tests.server.process import ROOT

PAGE = (ROOT / "docs" / "user" / "agents.md").read_text(encoding="utf-8")


def test_clients_can_read_the_configuration():
    folder = ROOT / "examples" / "people" / "agents"
    stdio = json.loads((folder / "stdio.json").read_text(encoding="utf-8"))["mcpServers"]["people"]
    served = json.loads((folder / "http.json").read_text(encoding="utf-8"))["mcpServers"]["people"]
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))["mcp_servers"]
    assert (stdio["command"], stdio["args"]) == (config["people"]["command"], config["people"]["args"])
    assert served["url"] == config["served"]["url"]
    for name in ("session.py", "stdio.json", "http.json", "config.toml", "policy.yaml"):
        assert (folder / name).read_text(encoding="utf-8").strip() in PAGE, name
