"""Runs feature scripts in this process and writes what each returned, one JSON line per script, nothing rounded.

It is an ordinary JAX script and knows nothing of clusters: the same file runs on the cluster and on plain local JAX.
A script that fails gives its traceback instead of values; one that ends the process leaves no line.

    python side.py OUTPUT SCRIPT...
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np


def load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"feature_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def encode(value: Any) -> Any:
    """Trees of arrays, numbers and text as JSON; arrays by dtype, shape and bytes."""
    match value:
        case dict():
            return {str(key): encode(item) for key, item in value.items()}
        case list() | tuple():
            return [encode(item) for item in value]
        case bool() | int() | str() | None:
            return value
        case float():
            return {"float": value.hex()}
        case _:
            array = np.asarray(value)
            return {"dtype": str(array.dtype), "shape": list(array.shape), "bytes": array.tobytes().hex()}


def outcome(path: Path) -> dict[str, Any]:
    started_s = time.perf_counter()
    try:
        result: dict[str, Any] = {"values": encode(load(path).run())}
    except Exception:
        result = {"error": traceback.format_exc()}
    return {"feature": path.stem, "seconds": time.perf_counter() - started_s, **result}


def main() -> None:
    output, scripts = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    with output.open("w") as stream:
        for script in scripts:
            stream.write(json.dumps(outcome(script)) + "\n")
            stream.flush()
            jax.clear_caches()


if __name__ == "__main__":
    main()
