"""What the outcomes of a client's scripts are worth: a failure is expected only by name, and with words that it must hold.

An expected failure that passes is a problem, too: its line has to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pathways_common.model.jaxlibs import unserved_client

# They import what is not installed beside an older JAX.
_NEED_MORE = {"training": "optax"}
_COLOCATED = "colocated Python needs the jaxlib of the hosts at the client"
_NO_JOINING = "module 'jaxlib._pathways' has no attribute '_concatenate_by_mesh_axis'"
_NO_MOVES = "ReshardArrays is not supported for the IFRT proxy client"
# JAX before 0.10 lowers ordered callbacks over several devices to what its own XLA refuses, too.
_ORDERED = "side-effect HLO cannot have a replicated sharding"
_PMAP = "Received incompatible devices for jitted computation"

# Units in the last place by which results may differ where the hosts' compiler is not the client's: sums of large arrays are
# added up in another order (74 were seen).
ULPS_OTHER_COMPILER = 128

# By version and script: words of the failure.
EXPECTED: Mapping[str, Mapping[str, str]] = {
    "0.8": {
        # Pickles hold jax.ShapeDtypeStruct by its slots, and 0.10 has others.
        "colocated": _COLOCATED,
        "ordered_callbacks": _ORDERED,
        "error_ordered_hosts": _ORDERED,
        # The client of 0.8 does not ask for moves; `device_put` and `pw.reshard` go by the client instead.
        "device_put_stays": _NO_MOVES,
        "mesh_axes": _NO_JOINING,
        # pmap of 0.8 takes no array that lies on other devices, here or locally.
        "virtual_slices": _PMAP,
    },
    "0.9": {"colocated": _COLOCATED, "ordered_callbacks": _ORDERED, "error_ordered_hosts": _ORDERED, "mesh_axes": _NO_JOINING},
}


@dataclass(frozen=True)
class Row:
    """Of one version: how many scripts passed and failed as expected, how it was refused, and what is wrong."""

    jaxlib: str
    passed: int = 0
    expected: int = 0
    refused: str = ""
    problems: tuple[str, ...] = ()


def left_out() -> frozenset[str]:
    """Scripts that are not tried."""
    return frozenset(_NEED_MORE)


def served_row(jaxlib: str, verdicts: Mapping[str, str], expected: Mapping[str, str]) -> Row:
    """`verdicts`: for each script what was wrong, empty if nothing was."""
    problems = [f"{name} is expected to fail and was not tried" for name in expected if name not in verdicts]
    if not verdicts:
        problems.append("no script was tried")
    passed = as_expected = 0
    for name, problem in verdicts.items():
        words = expected.get(name)
        if not problem and words is None:
            passed += 1
        elif not problem:
            problems.append(f"{name} passes now and is expected to fail")
        elif words is not None and words in problem:
            as_expected += 1
        else:
            problems.append(f"{name} failed: {problem.splitlines()[-1]}")
    return Row(jaxlib, passed, as_expected, problems=tuple(problems))


def refused_row(jaxlib: str, returncode: int, out: str, err: str) -> Row:
    """What a client that is not served was told: one sentence, and that alone."""
    sentence = unserved_client(jaxlib)
    lines = err.strip().splitlines()
    if sentence and returncode != 0 and not out.strip() and lines == [f"pathways: {sentence}"]:
        return Row(jaxlib, refused=sentence)
    told = lines[-1] if lines else "nothing"
    return Row(
        jaxlib, problems=(f"should be refused in one sentence; exit code {returncode}, {len(lines)} lines, the last: {told}",)
    )


def table(rows: list[Row]) -> str:
    """For people."""
    lines = [("jaxlib", "passed", "expected to fail", "unexpected", "refused")]
    lines += [(row.jaxlib, str(row.passed), str(row.expected), str(len(row.problems)), row.refused or "-") for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
