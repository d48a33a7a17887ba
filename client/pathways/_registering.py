"""A compiled program under a name: what can be kept beyond the session, and what is refused before the cluster is asked."""

from __future__ import annotations

import re

from pathways import _program_calls, _tracing, errors

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9])?")


def register(program: str, definition: _tracing.Definition, name: str, replace: bool) -> int:
    """Keeps a program; the version that the name got. Raises errors.PathwaysError."""
    if _NAME.fullmatch(name) is None:
        raise errors.InvalidArgumentError(
            f"{name!r} is no name for a program: use 1 to 200 letters and digits, with . _ - / only between them"
        )
    if definition.run is None:
        raise errors.InvalidArgumentError(f"program {program} computes nothing on the cluster, so there is nothing to keep")
    if definition.hidden:
        raise errors.UnsupportedError(
            f"program {program} uses {len(definition.hidden)} arrays from outside, which end with this session; "
            "pass them as arguments to register it"
        )
    if definition.fusion is not None:
        definition.fusion.fuse()  # whoever opens it has its groups
    return _program_calls.runner().register(definition.run, name, replace)
