"""What a client may send as a program: StableHLO text, StableHLO bytes, or a jax.export artifact; told apart by how they begin.

Text and MLIR bytecode begin with words of their own; an artifact is the rest. An artifact says for how many devices it was made
and leaves out parameters that its function does not use: the program then takes only those that are left.
"""

from __future__ import annotations

import re
from typing import Any

from pathways_common.model.failure import Reason

from pathways_worker.executor import runtime
from pathways_worker.executor.failures import refuse
from pathways_worker.executor.module_limits import check_text

_BYTECODE = b"ML\xefR"
# Comments and aliases may stand before the module.
_TEXT = re.compile(rb"\s*(?:(?://[^\n]*+|[#!][^\n]*+)\s*+)*+(?:module\b|builtin\.module\b|\"builtin\.module\"|func\.func\b)")
_WANTED = "send StableHLO as text or bytes, or an artifact of jax.export"
_ERROR_TEXT_MAX = 2000


def read_program(data: bytes, device_count: int) -> Any:
    """The MLIR module of a program for so many devices; raises Refused (COMPILE_ERROR) with one sentence."""
    if data.startswith(_BYTECODE):
        return _bytecode(data)
    if _TEXT.match(data):
        return _text(data)
    if not data:
        raise refuse(Reason.COMPILE_ERROR, f"the program is empty; {_WANTED}")
    return _artifact(data, device_count)


def _text(data: bytes) -> Any:
    check_text(data)
    try:
        return runtime.parse_text(data.decode())
    except Exception as error:
        cause = _one_line(error)
        raise refuse(Reason.COMPILE_ERROR, f"the program is StableHLO text that does not parse: {cause}") from error


def _bytecode(data: bytes) -> Any:
    try:
        return runtime.parse_program(data)
    except Exception as error:
        text = f"the program is no StableHLO bytecode that this executor can read ({_one_line(error)}); {_WANTED}"
        raise refuse(Reason.COMPILE_ERROR, text) from error


def _artifact(data: bytes, device_count: int) -> Any:
    try:
        exported = runtime.read_exported(data)
    except Exception as error:
        sentence = f"the program is neither StableHLO nor an artifact of jax.export; {_WANTED}"
        raise refuse(Reason.COMPILE_ERROR, sentence) from error
    if exported.device_count != device_count:
        text = f"the artifact was exported for {exported.device_count} devices and {device_count} were named; name as many"
        raise refuse(Reason.INVALID_ARGUMENT, text)
    if exported.platforms != ("cpu",):
        names = ", ".join(exported.platforms)
        text = (
            f"the artifact was exported for {names}; export it for this platform alone: jax.export.export(f, platforms=['cpu'])"
        )
        raise refuse(Reason.COMPILE_ERROR, text)
    return _bytecode(exported.module)


def _one_line(error: Exception) -> str:
    """A parser's message without its line breaks."""
    return " ".join(str(error).split())[:_ERROR_TEXT_MAX] or type(error).__name__
