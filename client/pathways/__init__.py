"""Pathways: stock JAX in front of a shared cluster. `import pathways as pw; pw.connect()` before the first JAX call.

Importing this package is cheap: JAX is imported by `connect`, and by nothing before.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pathways import errors
from pathways._cancel import cancel
from pathways._connect import Connection, connect
from pathways._elastic import Elastic, elastic
from pathways._fetch import fetch
from pathways._graph import Graph
from pathways._irregular import cond, counted, while_loop
from pathways._microbatches import microbatched
from pathways._program import Program, program
from pathways._put import put
from pathways._reshard import reshard
from pathways._slices import VirtualDeviceSet, VirtualSlice, make_virtual_device_set, resume, suspend

try:
    __version__ = version("pathways")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "Connection",
    "Elastic",
    "Graph",
    "Program",
    "VirtualDeviceSet",
    "VirtualSlice",
    "__version__",
    "cancel",
    "cond",
    "connect",
    "counted",
    "elastic",
    "errors",
    "fetch",
    "make_virtual_device_set",
    "microbatched",
    "program",
    "put",
    "reshard",
    "resume",
    "suspend",
    "while_loop",
]
