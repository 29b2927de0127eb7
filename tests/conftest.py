"""What every test has around it."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

# A plain run is the same run every time, here and elsewhere; `make fuzz` looks for what nobody has seen yet. Neither
# depends on how fast or how busy the machine is.
settings.register_profile(
    "unhurried",
    derandomize=os.environ.get("OMNIGRAPH_FUZZ") != "long",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")

# Tests start thousands of processes, and workers import every file: none of them shall compile it again, whatever the
# shell of whoever runs the suite says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test may ask a provider of whoever runs the suite, here or in a child process.
for _name in [name for name in os.environ if name.startswith("OMNIGRAPH_EMBED")]:
    del os.environ[_name]
for _name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
    os.environ.pop(_name, None)

# Nor may a thread of ours commit in the middle of what a test counts, unless the test asks for it.
os.environ["OMNIGRAPH_AUTO_MAINTENANCE"] = "0"

pytest_plugins = ["tests.fixtures_s3"]

# Folders whose tests share what is expensive to make, a session of Spark and deep graphs: one worker runs each, before
# any file, because they take longest.
_TOGETHER = ("tests/spark/", "tests/cost/")
# The file there whose tests start drivers of their own, and share nothing.
_APART = "tests/spark/test_session_ends.py"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give every file to one worker, as ``--dist loadfile`` does, and some folders as a whole."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - the controller alone needs it

    class FilesAndFolders(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = next(filter(nodeid.startswith, _TOGETHER), None)
            return super()._split_scope(nodeid) if folder is None or nodeid.startswith(_APART) else folder

    return FilesAndFolders(config, log)


# Collecting it takes longer than collecting all others, so that a run which has none of its tests does not.
_DEAR = "test_openapi_requests.py"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file that is dear to collect where all of its tests would be left out."""
    return True if collection_path.name == _DEAR and config.option.markexpr == "not more" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what takes longest first where several workers share the run."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(_TOGETHER))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[None]:
    """Look for examples in docstrings of the package alone: tests have none, and every worker would read them all."""
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Keep what collecting makes out of the way of the garbage collector: it stays until the end of the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
