"""Stands in for `pathways-worker`: joins by leaving a file in the state directory."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
    host = options["--host"]
    if os.environ.get("FAKE_WORKER") == "clings":  # before it has joined, so before anybody asks it to end
        signal.signal(signal.SIGTERM, lambda number, frame: print("asked to end", flush=True))
    if os.environ.get("FAKE_WORKER_LOST") == host:
        sys.stderr.write("the secret is wrong\n")
    else:
        joined = Path(options["--state-dir"]) / f"joined-{options['--island']}-{host}"
        joined.write_text(str(os.getpid()))
        print(f"joined {host}", flush=True)
    while True:
        time.sleep(0.5)
