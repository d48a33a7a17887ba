"""Words on the command line: sizes, topologies, the state directory, and the options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite, prod
from typing import Any, TypeVar

import click
from pathways_common.model.sizes import parse_size
from pathways_common.model.topology import parse_topology
from pathways_common.process.state import StateDir, default_state_dir

Command = TypeVar("Command", bound=Callable[..., Any])

ISLANDS = click.IntRange(1, 26)
HOSTS = click.IntRange(1, 64)
DEVICES = click.IntRange(1, 256)
# What a worker takes at most.
_BYTES_MAX = 1 << 60


class Bytes(click.ParamType[int]):
    """A size: 4096, 512M, 2GiB; powers of 1024."""

    name = "size"

    def __init__(self, lowest: int = 1) -> None:
        self._lowest = lowest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, or a refusal."""
        if isinstance(value, int):
            return value
        try:
            size = parse_size(str(value))
        except ValueError:
            size = -1
        if size < self._lowest:
            self.fail(f"{value!r} is not a size; write for example 512M or 2GiB", param, ctx)
        if size > _BYTES_MAX:
            self.fail(f"{value} is more than any device has", param, ctx)
        return size


class Seconds(click.FloatRange):
    """At least a tenth of a second; also refuses what is no number and what has no end."""

    def __init__(self) -> None:
        super().__init__(min=0.1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a refusal."""
        seconds = float(super().convert(value, param, ctx))
        if not isfinite(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


def state_option(command: Command) -> Command:
    """--state-dir, given to the command as a StateDir."""
    return click.option(
        "--state-dir",
        "state",
        type=click.Path(file_okay=False),
        metavar="DIR",
        callback=_state,
        help="Where the cluster keeps its token, logs and cluster.json. Default: $PATHWAYS_STATE_DIR, ~/.local/state/pathways.",
    )(command)


def address_option(command: Command) -> Command:
    """--address."""
    return click.option(
        "--address", metavar="grpc://HOST:PORT", help="A running cluster. Default: $PATHWAYS_ADDRESS, else the one started here."
    )(command)


def _state(context: click.Context, parameter: click.Parameter, value: str | None) -> StateDir:
    if value == "":
        raise click.BadParameter("an empty path names no directory", context, parameter)
    return StateDir(value) if value is not None else default_state_dir()


def check_topology(topology: str, hosts: int, devices: int) -> tuple[int, ...]:
    """A topology such as 4x2 must hold exactly the devices of one island; raises click.UsageError."""
    if not topology:
        return ()
    try:
        sizes = parse_topology(topology)
    except ValueError:
        raise click.UsageError(f"--topology {topology!r} is not a shape; write for example 4, 2x2 or 4x2x2") from None
    if prod(sizes) != hosts * devices:
        has = f"{hosts} hosts with {devices} devices each make {hosts * devices}"
        raise click.UsageError(f"--topology {topology} has {prod(sizes)} places, but {has}")
    return sizes


def check_kinds(kinds: str, islands: Iterable[str]) -> dict[str, str]:
    """Kinds by island, from a=fast,b=slow; raises click.UsageError."""
    found: dict[str, str] = {}
    for part in filter(None, kinds.split(",")):
        island, _, kind = part.partition("=")
        if not kind or island not in islands:
            names = ", ".join(islands)
            raise click.UsageError(f"--kinds {kinds!r} is not of the form a=fast,b=slow with the islands {names}")
        found[island] = kind
    return found
