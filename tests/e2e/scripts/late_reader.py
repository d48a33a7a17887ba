"""A restore in which hosts are late: `late_reader.py storage FOLDER SECONDS` or `late_reader.py python SECONDS`.

Tells what it sees as JSON, one line each: the host of each device; then a line on stdin names the hosts whose part is to take
much longer than that many seconds, and it tells how the restore ended, when, and by which values. An empty line ends it.
"""

import datetime
import json
import sys
import time

import jax
import numpy as np
import pathways as pw
from jax.experimental import colocated_python as colocated
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

VALUES = np.arange(12, dtype=np.int32)


def tell(**what):
    print(json.dumps(what), flush=True)


def ended(restore, late):
    began_s = time.monotonic()
    try:
        value = np.concatenate([np.asarray(each) for each in restore(late)]).tolist()
        tell(value=value, took_s=time.monotonic() - began_s)
    except Exception as error:
        took_s, typed = time.monotonic() - began_s, pw.errors.of(error)
        tell(failed=type(typed).__name__, host=typed.host, message=str(typed), took_s=took_s)


def read_part(wait_s, part):
    """A part of the values, as a host reads it from somewhere."""
    time.sleep(int(np.asarray(wait_s)[0]))
    return part + 0


def by_python(seconds):
    devices = jax.devices()
    read = colocated.colocated_python(read_part).specialize(out_specs_fn=lambda _, part: part)
    parts = np.split(VALUES, len(devices))

    def restore(late):
        waits_s = [10 * seconds if host in late else 0 for host in hosts()]
        found = [
            read(jax.device_put(np.int32([wait_s]), device), jax.device_put(part, device))
            for wait_s, part, device in zip(waits_s, parts, devices, strict=True)
        ]
        return jax.block_until_ready(found)

    return restore


def by_storage(folder, seconds):
    import pathwaysutils
    from pathwaysutils.persistence import helper

    pathwaysutils.initialize()
    allowed = datetime.timedelta(seconds=seconds)
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    x = jax.device_put(VALUES, rows)
    helper.write_arrays(folder, ["x"], [x], datetime.timedelta(seconds=60)).result()

    def restore(_late):
        (array,), done = helper.read_arrays(folder, ["x"], [x.dtype], [x.shape], [rows], rows.mesh.devices, allowed)
        done.result()
        return [array]

    return restore


def hosts():
    return [device.host_name for device in jax.devices()]


def main():
    with pw.connect(islands="all"):
        restore = by_python(int(sys.argv[2])) if sys.argv[1] == "python" else by_storage(sys.argv[2], int(sys.argv[3]))
        tell(hosts=hosts())
        while late := sys.stdin.readline().strip():
            ended(restore, late.split(","))


main()
