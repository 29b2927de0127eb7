"""Pipelines as files: ``.py`` is run, ``.yaml`` is read; both give one declaration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing, Mistake, UsageError
from omnigraph.pipelines.declare import Pipeline
from omnigraph.pipelines.given import Declared
from omnigraph.pipelines.mistakes import mistake_at, raised_mistake, refuse
from omnigraph.pipelines.model import Declaration, Place
from omnigraph.pipelines.yaml_file import read_yaml
from omnigraph.values import check_path

SUFFIXES = (".py", ".yaml", ".yml")
# What a declaration in Python is called while it runs.
_MODULE = "__omnigraph_pipeline__"


def load_declaration(path: str | Path) -> Declaration:
    """Return the pipeline that a file declares.

    Raises:
        PipelineInvalidError: a part of it makes no sense, or running it fails.
        UsageError: it is neither Python nor YAML, by the end of its name.
        FileMissingError, FileAccessError: it cannot be read.
    """
    return read_declared(path).unwrap()


def read_declared(path: str | Path) -> Declared:
    """Return what a file declares as far as it can be understood, and what is wrong with the rest.

    Raises:
        PipelineInvalidError: nothing of it can be understood.
        UsageError: it is neither Python nor YAML, by the end of its name.
        FileMissingError, FileAccessError: it cannot be read.
    """
    check_path("path", path)
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        details = BadValue(what="file", value=str(path), expected=" or ".join(SUFFIXES))
        raise UsageError(f"'{path}' is neither Python nor YAML", details=details, hint="name it .py or .yaml")
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as problem:
        missing = MissingThing(what="file", name=str(path))
        raise FileMissingError(f"file '{path}' was not found", details=missing) from problem
    except OSError as problem:
        details = BadValue(what="file", value=str(path), expected="a file that can be read")
        why = (problem.strerror or str(problem)).lower()
        raise FileAccessError(f"cannot read {path}: {why}", details=details) from problem
    return _run(data, str(path)) if suffix == ".py" else read_yaml(data, str(path))


def _run(data: bytes, path: str) -> Declared:
    """Run a file as a module of its own, and return what the one pipeline in it declares."""
    module = ModuleType(_MODULE)
    module.__file__ = path
    start = Place(file=path, line=1)
    try:
        code = compile(data, path, "exec", dont_inherit=True)
        with _importable(module, Path(path).resolve().parent):
            exec(code, module.__dict__)  # noqa: S102 - the file is a program, and running it is what was asked for
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # noqa: BLE001 - whatever code of people raises is told to them
        _refuse_one(raised_mistake(problem, start), problem)
    found = {id(one): one for one in vars(module).values() if isinstance(one, Pipeline)}
    if len(found) != 1:
        names = ", ".join(f"'{one.name}'" for one in found.values())
        message = f"the file declares {len(found)} pipelines: {names}" if found else "the file declares no pipeline"
        hint = "put each into a file of its own" if found else "assign one to a name: crm = Pipeline('crm')"
        _refuse_one(mistake_at(start, message, hint=hint), None)
    return next(iter(found.values())).declared()


def _refuse_one(mistake: Mistake, cause: BaseException | None) -> None:
    try:
        refuse("", [mistake])
    except Exception as problem:
        raise problem from cause


@contextmanager
def _importable(module: ModuleType, folder: Path) -> Iterator[None]:
    """Let a module be found by its name, and modules beside it, while it runs.

    Afterwards it cannot be found: functions of it then go to workers by value, where no file of it is.
    """
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.modules.pop(module.__name__, None)
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
