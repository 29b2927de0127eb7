"""A backend that knows nothing but the JSON form of requests, as one that sends them over a wire would."""

from __future__ import annotations

import json

from omnigraph.operations import request_from_json, request_to_json
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.request import NOTHING


class JsonBackend(LocalBackend):
    """Records each request and hands it on the way it comes back from its JSON text."""

    def __init__(self, engine, mode):
        super().__init__(engine, mode)
        self.requests = []

    def execute(self, request, attached=NOTHING):
        text = json.dumps(request_to_json(request))
        self.requests.append(json.loads(text))
        return super().execute(request_from_json(json.loads(text)), attached)
