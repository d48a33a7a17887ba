"""Where to connect, with which token, to which islands: arguments first, then the environment, then the state directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pathways_common.model import failure as model
from pathways_common.process.state import find_address, find_token
from pathways_common.rpc.channels import parse_address

from pathways import errors

ALL_ISLANDS = "*"


@dataclass(frozen=True, slots=True)
class Target:
    """`controller` is HOST:PORT; `islands` is empty (one island), "*" or comma-joined names."""

    controller: str
    token: str | None
    islands: str


def find_target(address: str | None = None, token: str | None = None, islands: str | Iterable[str] | None = None) -> Target:
    """Raises errors.PathwaysError with one sentence if there is no address, or it cannot be one."""
    try:
        controller = parse_address(find_address(address))
        return Target(controller, token or find_token(), islands_argument(islands))
    except model.PathwaysError as error:
        raise errors.from_failure(error.failure, at_start=True) from None


def islands_argument(islands: str | Iterable[str] | None) -> str:
    """None -> $PATHWAYS_ISLANDS, else one island; "all" -> all; a name, comma-joined names or a list of names -> those."""
    wanted = os.environ.get("PATHWAYS_ISLANDS", "") if islands is None else islands
    names = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    names = [name.strip() for name in names if name.strip()]
    if names in (["all"], [ALL_ISLANDS]):
        return ALL_ISLANDS
    for name in names:
        if not name.replace("-", "").replace("_", "").isalnum():
            failure = model.Failure(
                model.Reason.INVALID_ARGUMENT, f"{name!r} is no name of an island; write islands='all' or names such as 'a,b'"
            )
            raise errors.from_failure(replace(failure, metadata={"island": name}), at_start=True)
    return ",".join(names)
