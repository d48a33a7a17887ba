"""Stands in for `python -m pathways_door`: says a line, and leaves a file behind if it was ended gently."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    behaviour = os.environ["FAKE_DOOR"]
    record = Path(os.environ["FAKE_DOOR_RECORD"])
    record.with_suffix(".arguments").write_text(json.dumps(sys.argv[1:]))
    record.with_suffix(".environment").write_text(json.dumps(dict(os.environ)))
    if behaviour == "silent":
        sys.stdin.read()
        return
    if behaviour == "dies":
        sys.stderr.write("first line\nno module named so\n")
        sys.exit(3)
    if behaviour == "babbles":
        print("hello")
        sys.stdin.read()
        return
    if behaviour == "fails":
        print(json.dumps({"failure": {"reason": "UNAUTHENTICATED", "message": "the token is wrong"}}), flush=True)
        sys.exit(1)
    versions = {"versions": "client: jaxlib 1; worker a0: jaxlib 2", "differences": ["jaxlib"]} if behaviour == "differs" else {}
    print(json.dumps({"address": "127.0.0.1:1", "session_number": 7, "devices": 4, **versions}), flush=True)
    if behaviour == "ends":
        sys.stderr.write("first line\nno room left\n")
        sys.exit(3)
    sys.stdin.read()
    if behaviour == "clings":
        time.sleep(60)
    record.with_suffix(".ended").write_text("gently")


main()
