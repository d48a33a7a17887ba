"""A compiled program under a name: what can be kept beyond the session, and what is refused before the cluster is asked.

Constants that a session passes at every run, such as the first count of a loop, become a part of what is kept.
"""

from __future__ import annotations

import re

from pathways import _program_calls, _tracing, errors
from pathways._nodes import Compiler
from pathways._program_calls import Runner

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9])?")


def register(program: str, definition: _tracing.Definition, name: str, replace: bool) -> int:
    """Keeps a program; the version that the name got. Raises errors.PathwaysError."""
    if _NAME.fullmatch(name) is None:
        raise errors.InvalidArgumentError(
            f"{name!r} is no name for a program: use 1 to 200 letters and digits, with . _ - / only between them"
        )
    if definition.run is None:
        raise errors.InvalidArgumentError(f"program {program} computes nothing on the cluster, so there is nothing to keep")
    runner = _program_calls.runner()
    if not definition.hidden:
        return _keep(runner, definition, name, replace)
    call = _tracing.with_own_constants(definition.call, runner)
    if call.hidden:
        raise errors.UnsupportedError(
            f"program {program} uses {len(call.hidden)} arrays from outside, which end with this session; "
            "pass them as arguments to register it"
        )
    return _keep(runner, _tracing.define(call, Compiler(), runner, frozenset()), name, replace)


def _keep(runner: Runner, definition: _tracing.Definition, name: str, replace: bool) -> int:
    if definition.fusion is not None:
        definition.fusion.fuse()  # whoever opens it has its groups
    assert definition.run is not None, "a program without nodes was refused before"
    return runner.register(definition.run, name, replace)
