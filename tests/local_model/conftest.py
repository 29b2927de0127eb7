"""The model takes gigabytes to install and seconds to load, so only ``make test-embedding`` looks at it."""

import os

collect_ignore_glob = [] if os.environ.get("OMNIGRAPH_MODEL") == "local" else ["test_*.py"]
