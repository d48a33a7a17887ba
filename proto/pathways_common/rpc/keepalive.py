"""How long a connection may be silent: both ends say now and then that they live, and give up one that says nothing.

`PATHWAYS_KEEPALIVE_S` in the environment of a process changes it; set it alike for all processes of a cluster and its clients.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from pathways_common.model.bounds import KEEPALIVE_NS

VARIABLE = "PATHWAYS_KEEPALIVE_S"
_LEAST_S, _MOST_S = 0.1, 3600.0


def keepalive_ns(environment: Mapping[str, str] = os.environ) -> int:
    """The setting in nanoseconds. One that is no number of seconds is told and not used: this is read when modules are loaded."""
    text = environment.get(VARIABLE, "")
    if not text:
        return KEEPALIVE_NS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _LEAST_S <= seconds <= _MOST_S:
        known = f"{KEEPALIVE_NS // 10**9} s are used; set it to a number of seconds from {_LEAST_S:g} to {_MOST_S:g}, or unset it"
        logging.getLogger(__name__).warning("%s is %r: %s", VARIABLE, text, known)
        return KEEPALIVE_NS
    return int(seconds * 1e9)
