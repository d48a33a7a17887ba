"""What XLA ends the process for instead of refusing it, found before it is compiled: an executor is everybody's.

Sizes that do not fit into 64 bits, functions that call themselves or have no body, nesting that no stack holds, marks without
what they mark, shardings into a negative number of parts, and queues that nobody feeds. What else cannot be compiled XLA says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from google.protobuf.message import DecodeError
from pathways_common.model.bounds import ARRAY_BYTES_MAX, DIMENSIONS_MAX
from pathways_common.model.failure import Reason
from pathways_proto.ifrt import xla_data_pb2

from pathways_worker.executor.failures import Refused, refuse

# Of operations inside operations, and brackets inside brackets: programs of people stay below 20.
DEPTH_MAX = 200
# Operations of a program with every call written out, which XLA does.
INLINED_OPERATIONS_MAX = 50_000_000
# Elements of the widest type, so that no count of bytes overflows.
ELEMENTS_MAX = ARRAY_BYTES_MAX // 16
# Letters and digits in a row, outside of strings.
WORD_MAX = 1000

# They wait for a host queue; nobody is at its other end.
QUEUES = frozenset({"stablehlo.infeed", "stablehlo.outfeed"})
# Operands of custom calls that XLA rewrites without looking: exactly so many, or at least.
_EXACTLY = {
    "Sharding": 1, "SPMDFullToShardShape": 1, "SPMDShardToFullShape": 1,
    "xla.sdy.FuncResultSharding": 1, "xla.sdy.ShardingGroup": 1, "xla.sdy.PropagationBarrier": 1,
}  # fmt: skip
_AT_LEAST = {
    "LayoutConstraint": 1, "SetBound": 1, "TopK": 1, "Eigh": 1, "Qr": 1, "LuDecomposition": 1, "Cholesky": 1,
    "ProductOfElementaryHouseholderReflectors": 2,
}  # fmt: skip
_WITH_ATTRIBUTES = frozenset({"xla.sdy.FuncResultSharding"})

_TOKENS = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"|//[^\n]*+|->|(?P<open>[(\[{<])|(?P<close>[)\]}>])'
    rb"|(?P<word>[0-9A-Za-z_]{%d})|(?P<signs>(?:[-+]\s*+){65})|(?P<affine>\baffine_(?:map|set)\b)" % (WORD_MAX + 1)
)


def check_text(data: bytes) -> None:
    """Raises Refused for text that the parser, which follows it down, would not come back from."""
    depth = 0
    for token in _TOKENS.finditer(data):
        kind = token.lastgroup
        if kind == "open":
            depth += 1
            if depth > DEPTH_MAX:
                raise _refused(f"its text nests brackets more than {DEPTH_MAX} deep")
        elif kind == "close":
            depth -= 1
        elif kind == "word":
            raise _refused(f"its text has a word of more than {WORD_MAX} characters")
        elif kind is not None:
            raise _refused("its text has affine maps or rows of signs, which StableHLO does without")


def check_depth(depth: int) -> None:
    """Raises Refused for an operation inside too many others."""
    if depth > DEPTH_MAX:
        raise _refused(f"it nests operations more than {DEPTH_MAX} deep")


def check_shape(shape: Iterable[int], text: str) -> None:
    """Raises Refused for a type whose size cannot be said in 64 bits; dimensions that are not known are negative."""
    count = prod(size for size in shape if size > 0)
    if count > ELEMENTS_MAX:
        raise _refused(f"it has a value of type {text[:200]}, more than any memory holds")


def check_border(shape: tuple[int, ...]) -> None:
    """Raises Refused for an argument or result that no array can be."""
    if len(shape) > DIMENSIONS_MAX:
        raise _refused(f"it takes or gives an array of {len(shape)} dimensions; at most {DIMENSIONS_MAX} are supported")


def check_operands(target: str, operands: int, has_attributes: bool, results: int) -> None:
    """Raises Refused for a custom call that lacks what XLA takes for granted."""
    wanted = _EXACTLY.get(target)
    if wanted is not None and operands != wanted:
        raise _refused(f"it calls {target!r} with {operands} operands; that takes {wanted}")
    if operands < _AT_LEAST.get(target, 0):
        raise _refused(f"it calls {target!r} with {operands} operands; that takes at least {_AT_LEAST[target]}")
    if target in _WITH_ATTRIBUTES and not has_attributes:
        raise _refused(f"it calls {target!r} without frontend attributes")
    if target == "TopK" and results != 2:
        raise _refused(f"it calls {target!r} for {results} results; that gives 2")


def check_sharding(sharding: bytes, is_mark: bool) -> None:
    """Raises Refused for an `mhlo.sharding` into impossible parts. It is text in braces, or a serialized xla.OpSharding."""
    text = sharding.decode("latin-1")
    if text.startswith("{"):
        if re.search(r"[\[,]\s*-\d", text):
            raise _refused(f"it has a sharding into a negative number of parts: {text[:200]}")
        if is_mark and "unreduced" in text:
            raise _refused("it marks a value inside as unreduced, which only arguments and results can be")
        return
    try:
        message = xla_data_pb2.OpSharding.FromString(sharding)
    except DecodeError as error:
        raise _refused("it has a sharding that is neither text in braces nor an xla.OpSharding") from error
    for each in (message, *message.tuple_shardings):
        if min((*each.tile_assignment_dimensions, *each.iota_reshape_dims), default=1) < 1:
            raise _refused("it has a sharding into less than one part")


@dataclass(slots=True)
class Functions:
    """Which function calls which, how often, and how many operations each has."""

    sizes: dict[str, int] = field(default_factory=dict)
    calls: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, name: str, has_body: bool) -> None:
        """A function begins."""
        if not has_body:
            raise _refused(f"it declares function {name!r} without a body")
        self.sizes[name] = 0
        self.calls[name] = {}

    def count(self, name: str) -> None:
        """It has one more operation."""
        self.sizes[name] += 1

    def call(self, caller: str, callee: str) -> None:
        """An operation of one names the other."""
        called = self.calls[caller]
        called[callee] = called.get(callee, 0) + 1

    def check(self) -> None:
        """Raises Refused if one calls itself, also by way of others, or if writing out all calls never ends."""
        whole: dict[str, int] = {}
        for first in self.calls:
            under_way: dict[str, None] = {}
            stack = [first]
            while stack:
                name = stack[-1]
                if name in whole or name not in self.calls:
                    stack.pop()
                    continue
                if name not in under_way:
                    under_way[name] = None
                    for callee in self.calls[name]:
                        if callee in under_way:
                            raise _refused(f"its function {callee!r} calls itself")
                        stack.append(callee)
                    continue
                stack.pop()
                del under_way[name]
                whole[name] = _written_out(self.sizes[name], self.calls[name], whole)


def _written_out(own: int, calls: Mapping[str, int], whole: Mapping[str, int]) -> int:
    size = own + sum(times * whole.get(callee, 1) for callee, times in calls.items())
    if size > INLINED_OPERATIONS_MAX:
        raise _refused(f"it has more than {INLINED_OPERATIONS_MAX} operations once its calls are written out")
    return size


def _refused(what: str) -> Refused:
    return refuse(Reason.PROGRAM_REFUSED, f"the program is refused because {what}; mend it")
