"""A program that was registered under a name, as it is kept: without session, devices and executables."""

from __future__ import annotations

from typing import NamedTuple

from .array import ArraySpec
from .graph import Program


class Origin(NamedTuple):
    """What a computation is compiled from (the name of its bytes), and for which devices: positions in the program's list."""

    program: str
    devices: tuple[int, ...]


class RegisteredProgram(NamedTuple):
    """A version of a name. In `program`, devices are positions in its list and executables are positions in `origins`, from 1."""

    tenant: str
    name: str
    version: int
    program: Program
    origins: tuple[Origin, ...]


class ListedProgram(NamedTuple):
    """What a view of the cluster shows of one."""

    tenant: str
    name: str
    version: int
    device_count: int
    node_count: int
    arguments: tuple[ArraySpec, ...]
    results: tuple[ArraySpec, ...]
