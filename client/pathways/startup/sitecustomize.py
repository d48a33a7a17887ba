"""Start-up hook of `pathways run`: gives two situations their one sentence, and otherwise stays out of the way.

`jax.distributed.initialize()` in the script is refused (without arguments JAX would raise before any plugin loads, with them it
would succeed and mean something else), and an error from before the first computation is shown without a traceback.
Whatever `sitecustomize` the interpreter had of its own runs first. Nothing of JAX or of ours is imported here.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType, TracebackType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_DISTRIBUTED = "jax._src.distributed"
_SENTENCE = (
    "jax.distributed.initialize() has no place in a script under `pathways run`: this one process sees all devices of its "
    "cluster already (jax.process_count() is 1), so remove the call"
)


def _run_the_other_one() -> None:
    paths = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    ours = sys.modules.get("sitecustomize")
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if ours is not None:
            sys.modules["sitecustomize"] = ours
        raise


def _refuse(*arguments: Any, **options: Any) -> None:
    from pathways import errors

    raise errors.UnsupportedError(_SENTENCE, at_start=True)


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.initialize = _refuse  # type: ignore[attr-defined]


class _Finder:
    """Finds one module, and gives it a loader that replaces one function."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name != _DISTRIBUTED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    found = _from_the_start(error)
    if found is None:
        _hook_before(kind, error, trace)
    else:
        sys.stderr.write(f"pathways: {found}\n")


def _from_the_start(error: BaseException | None) -> object:
    errors = sys.modules.get("pathways.errors")
    for _ in range(20):
        if errors is None or error is None:
            return None
        if isinstance(error, errors.PathwaysError) and error.at_start:
            return error
        error = error.__cause__ or error.__context__
    return None


_run_the_other_one()
_hook_before = sys.excepthook
if "PATHWAYS_DEBUG" not in os.environ:
    sys.excepthook = _show
sys.meta_path.insert(0, _Finder)
