"""Which versions of jaxlib work together: hosts have the newest, clients one of several, of which hosts read the programs.

`make compat` tries each of them.
"""

from __future__ import annotations

CLIENT_JAXLIBS = ("0.8", "0.9", "0.10")
SERVED = f"{', '.join(CLIENT_JAXLIBS[:-1])} or {CLIENT_JAXLIBS[-1]}"
WORKER_JAXLIB = CLIENT_JAXLIBS[-1]
# The first of these that executors were tried with.
OLDEST_ON_HOST = "0.10.2"


def version_numbers(text: str) -> tuple[int, ...]:
    """A version as something that can be compared; what is no number counts as 0."""
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split("."))


def minor_of(text: str) -> str:
    """Major and minor number of a version."""
    return ".".join(text.split(".")[:2])


def unserved_client(jaxlib: str) -> str:
    """Why no client with this jaxlib is served, in one sentence; empty if it is, or if its version is not known."""
    if not jaxlib or minor_of(jaxlib) in CLIENT_JAXLIBS:
        return ""
    return f"the client has jaxlib {jaxlib}, and Pathways serves clients with jaxlib {SERVED}: install one of these, and its jax"


def without_programs(jaxlib: str) -> str:
    """Why a client with this jaxlib cannot trace `pw.program`s, in one sentence; empty if it can."""
    if minor_of(jaxlib) == WORKER_JAXLIB:
        return ""
    return (
        f"pw.program needs jaxlib {WORKER_JAXLIB} at the client, which has {jaxlib}: install it, or call the functions one by one"
    )


def unusable_on_host(jaxlib: str) -> str:
    """Why a host cannot compute with this jaxlib, in one sentence; empty if it can."""
    if minor_of(jaxlib) == WORKER_JAXLIB and version_numbers(jaxlib) >= version_numbers(OLDEST_ON_HOST):
        return ""
    has = f"jaxlib {jaxlib}" if jaxlib else "no jaxlib"
    return (
        f"this host has {has}, and workers compute with {WORKER_JAXLIB} from {OLDEST_ON_HOST} on: "
        f"install jax and jaxlib {OLDEST_ON_HOST} here"
    )
