"""`pathways programs`: what is registered by name, every version, as a table for people or as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import types_pb2
from rich.table import Table

from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import output_option, print_json, print_table

# Names of element types by xla.PrimitiveType number, as XLA writes them.
_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32", 12: "f64",
    15: "c64", 16: "bf16", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4",
}  # fmt: skip
_SHOWN_MAX = 4


@click.command()
@address_option
@output_option
@state_option
def programs(address: str | None, output: str, state: StateDir) -> int:
    """List the programs that are registered by name, every version."""
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.programs()
    if output == "json":
        print_json(answer)
        return 0
    if not answer.programs:
        sys.stdout.write("no program is registered\n")
        return 0
    table = Table("program", "version", "devices", "nodes", "arguments", "results")
    for program in answer.programs:
        counts = (str(program.version), str(program.device_count), str(program.node_count))
        table.add_row(program.name, *counts, shown_specs(program.arguments), shown_specs(program.results))
    print_table(table)
    return 0


def shown_specs(specs: Iterable[types_pb2.ArraySpec]) -> str:
    """Types and global shapes, as in f32[8,4]; a long list is cut."""
    words = [f"{_TYPES.get(spec.dtype, f'type{spec.dtype}')}[{','.join(map(str, spec.shape))}]" for spec in specs]
    more = len(words) - _SHOWN_MAX
    return " ".join(words) if more <= 1 else f"{' '.join(words[:_SHOWN_MAX])} and {more} more"
