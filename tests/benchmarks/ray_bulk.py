"""Bulk data in Ray's object store: one JSON command per line, one JSON answer each, as bulk_moves.py.

Runs in an environment of its own (see ray_peer.py), so it imports nothing of this project. {"what": "put" | "get" | "copied",
"size": BYTES, "count": N}: `get` gives the store's own memory to read, `copied` memory of the caller's.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

import numpy as np
import ray

# Ray replaces 127.0.0.1 by the machine's own address, and loopback is what is compared.
NODE = "127.0.0.2"
STORE_BYTES = 5 << 30


def turn(what: str, data: Any) -> tuple[float, Any]:
    """Seconds, and what came back."""
    began_s = time.perf_counter()
    held = ray.put(data)
    put_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    found = ray.get(held)
    if what == "copied":
        found = found.copy()
    get_s = time.perf_counter() - began_s
    return put_s if what == "put" else get_s, found


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        ray.init(
            _node_ip_address=NODE, _temp_dir=folder, include_dashboard=False, configure_logging=False, log_to_driver=False,
            object_store_memory=STORE_BYTES,
        )  # fmt: skip
        try:
            answers.write(json.dumps({"devices": 0, "ray": ray.__version__}) + "\n")
            kept: dict[int, Any] = {}
            for line in sys.stdin:
                command = json.loads(line)
                data = kept.setdefault(command["size"], np.arange(command["size"] // 4, dtype=np.float32))
                times_s, right = [], 0
                for _ in range(command["count"]):
                    data[::4096] += 1
                    seconds, found = turn(command["what"], data)
                    times_s.append(seconds)
                    right += bool(np.array_equal(found, data))
                    del found
                answers.write(json.dumps({"times_s": times_s, "seconds": sum(times_s), "value": right}) + "\n")
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
