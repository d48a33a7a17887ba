"""The graph of a traced program, for people: one node per computation, whatever its shard count.

`print(f.graph)` shows one line per node; `to_dot` draws it with Graphviz; `nodes` is for programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath

ARGUMENT, COMPUTATION, RESULT, BRANCH, LOOP = "argument", "computation", "result", "branch", "loop"


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """Output `output` of the node with number `node`."""

    node: int
    output: int

    def __str__(self) -> str:
        return f"{self.node}.{self.output}"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """`kind` is "argument", "computation", "branch", "loop" or "result"; `outputs` are types such as "float32[8,128]".

    `place` is "file:line"; `bodies` are the graphs that a branch chooses from, or the condition and the body of a loop.
    """

    number: int
    kind: str
    name: str
    place: str
    devices: tuple[int, ...]
    island: str
    inputs: tuple[GraphEdge, ...]
    outputs: tuple[str, ...]
    bodies: tuple[Graph, ...] = ()

    @property
    def where(self) -> str:
        """The island and the devices, in words; empty for arguments and results."""
        if not self.devices:
            return ""
        island = f"island {self.island}, " if self.island else ""
        return f"{island}device{'s' if len(self.devices) > 1 else ''} {_ranges(self.devices)}"


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in an order in which every node comes after its inputs: first the arguments, last the results."""

    name: str
    nodes: tuple[GraphNode, ...]

    def __str__(self) -> str:
        rows = self._rows("")
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width) for row in rows]
        return "\n".join([f"program {self.name}", *(f"  {line.rstrip()}" for line in lines)])

    def _rows(self, indent: str) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for node in self.nodes:
            rows.append(
                (
                    f"{indent}{node.number}",
                    node.name,
                    node.where,
                    "from " + ", ".join(map(str, node.inputs)) if node.inputs else "",
                    ", ".join(node.outputs) if node.kind != RESULT else "",
                    node.place,
                )
            )
            for body in node.bodies:
                rows.append((f"{indent}  {body.name}:", "", "", "", "", ""))
                rows.extend(body._rows(indent + "    "))
        return rows

    def to_dot(self) -> str:
        """The graph in the language of Graphviz: `dot -Tsvg`."""
        return "\n".join([f'digraph "{_quoted(self.name)}" {{', "  node [shape=box];", *self._dot("n", "  "), "}"])

    def _dot(self, name: str, indent: str) -> list[str]:
        lines: list[str] = []
        for node in self.nodes:
            short = PurePath(node.place).name if node.place else ""
            label = "\\n".join(_quoted(part) for part in (node.name, node.where, short) if part)
            shape = _SHAPES.get(node.kind, "")
            lines.append(f'{indent}{name}{node.number} [label="{label}"{shape}];')
        for node in self.nodes:
            lines.extend(
                f'{indent}{name}{edge.node} -> {name}{node.number} [label="{_quoted(label)}"];'
                for edge, label in ((edge, self.nodes[edge.node].outputs[edge.output]) for edge in node.inputs)
            )
            for number, body in enumerate(node.bodies):
                inner = f"{name}{node.number}_{number}_"
                lines.append(f'{indent}subgraph "cluster_{inner}" {{')
                lines.append(f'{indent}  label="{_quoted(f"{node.number} {node.name}: {body.name}")}";')
                lines.extend(body._dot(inner, indent + "  "))
                lines.append(f"{indent}}}")
        return lines


_SHAPES = {ARGUMENT: ", shape=ellipse", RESULT: ", shape=ellipse", BRANCH: ", shape=diamond", LOOP: ", shape=diamond"}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _ranges(numbers: tuple[int, ...]) -> str:
    """2, 3, 4, 8 as "2-4, 8", in the order given."""
    parts = []
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(parts)
