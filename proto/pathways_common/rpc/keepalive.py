"""How long a connection may be silent: both ends say now and then that they live, and give up one that says nothing.

`PATHWAYS_KEEPALIVE_S` in the environment of a process changes it; set it alike for all processes of a cluster and its clients.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pathways_common.model.bounds import KEEPALIVE_NS
from pathways_common.model.failure import Reason, fail

VARIABLE = "PATHWAYS_KEEPALIVE_S"
_LEAST_S, _MOST_S = 0.1, 3600.0


def keepalive_ns(environment: Mapping[str, str] = os.environ) -> int:
    """The setting in nanoseconds; raises PathwaysError (INVALID_ARGUMENT) if it is no number of seconds."""
    text = environment.get(VARIABLE, "")
    if not text:
        return KEEPALIVE_NS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _LEAST_S <= seconds <= _MOST_S:
        sentence = f"{VARIABLE} is {text!r}; it must be a number of seconds from {_LEAST_S:g} to {_MOST_S:g}, or unset"
        raise fail(Reason.INVALID_ARGUMENT, sentence, value=text)
    return int(seconds * 1e9)
