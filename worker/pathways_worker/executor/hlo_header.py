"""Reads the first line of an optimised HLO module: what one device takes and gives, and what is really aliased.

Only that line counts: leftover buffer_donor entries elsewhere name donations that XLA did not use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pathways_worker.executor.element_types import HLO_NUMBERS

_ALIAS = re.compile(r"\{[\d, ]*\}: \((\d+), \{[\d, ]*\}(?:, [a-z-]+)?\)")
_TYPE = re.compile(r"\b([a-z][a-z0-9]*)\[([^\]]*)\]")
_COMMENT = re.compile(r"/\*.*?\*/")


@dataclass(frozen=True, slots=True)
class DeviceType:
    """Type of one value on one device. `dtype` is a PrimitiveType number, 0 if unknown."""

    dtype: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HloHeader:
    """Per-device parameter and result types, and the parameters that are aliased to results."""

    parameters: tuple[DeviceType, ...]
    results: tuple[DeviceType, ...]
    donated: tuple[int, ...]


def _section(line: str, key: str) -> str:
    """The text inside the braces behind `key=`."""
    start = line.find(key + "={")
    if start < 0:
        return ""
    position = start + len(key) + 1
    depth = 0
    for index in range(position, len(line)):
        if line[index] == "{":
            depth += 1
        elif line[index] == "}":
            depth -= 1
            if depth == 0:
                return line[position + 1 : index]
    return ""


def _types(text: str) -> tuple[DeviceType, ...]:
    return tuple(
        DeviceType(HLO_NUMBERS.get(name, 0), tuple(int(part.strip("<= ")) for part in dimensions.split(",") if part.strip()))
        for name, dimensions in _TYPE.findall(text)
    )


def parse_header(text: str) -> HloHeader:
    """Parses a module's text; anything behind its first line is ignored."""
    line = _COMMENT.sub("", text.partition("\n")[0])
    parameters, _, results = _section(line, "entry_computation_layout").partition(")->")
    donated = {int(number) for number in _ALIAS.findall(_section(line, "input_output_alias"))}
    return HloHeader(_types(parameters), _types(results), tuple(sorted(donated)))
