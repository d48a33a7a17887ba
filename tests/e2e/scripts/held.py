"""Asks for slices, one per line of input: JSON of what add_slice takes, or `release`. Prints what came."""

import json
import logging
import sys

import pathways as pw

logging.basicConfig(stream=sys.stdout, format="log %(message)s")
device_set = pw.make_virtual_device_set()
with pw.connect():
    print("connected", flush=True)
    for line in sys.stdin:
        if line.strip() == "release":
            device_set.release()
            print("released", flush=True)
            continue
        try:
            added = device_set.add_slice(**json.loads(line))
            print("got", added.island, added.kind, *sorted(added.hosts), flush=True)
        except pw.errors.PathwaysError as error:
            print(type(error).__name__, error, flush=True)
