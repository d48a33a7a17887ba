"""A plan: one graph of a program, lowered onto placements. Made once by lowering.py and run many times by runs.py.

Slots number the values: first the arguments, then everything that a step makes. Steps are in the order of the graph; a launch
is one gang, a move makes the same array in another layout or elsewhere, a free says that no later step uses a slot. Nothing here
names a host: that is `Bound`, which holds for one set of epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pathways_common.model.agreement import FieldDigest
from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure
from pathways_common.model.graph import Node
from pathways_common.model.ids import HostName

from .effects import LoadPlan
from .placements import slices_of
from .records import Executable, Host, Island, Placement

if TYPE_CHECKING:
    from .run_records import Run


@dataclass(frozen=True, slots=True)
class Launch:
    """`node` is the position of the node in its graph; arguments and results are slots."""

    node: int
    executable: Executable
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    non_donatable: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """`source_spec` and `destination_spec` are positions in `Plan.specs`."""

    source: int
    destination: int
    source_spec: int
    destination_spec: int


@dataclass(frozen=True, slots=True)
class Free:
    slots: tuple[int, ...]


Step: TypeAlias = Launch | Move | Free


@dataclass(frozen=True, slots=True)
class Group:
    """One executable for the launches among the steps from `first_step` to `end_step`, nodes `launch.node` to `last_node`.

    The steps among them that are no launches are frees.
    """

    first_step: int
    end_step: int
    last_node: int
    launch: Launch


@dataclass(frozen=True, slots=True)
class PlacedSpec:
    """A layout and where it lies. `spec.devices` are positions in the island of the placement."""

    spec: ArraySpec
    placement: Placement


@dataclass(frozen=True, slots=True)
class Shape:
    """What runs need to know of a plan, worked out once. `islands` are in the order in which a run waits for its turn.

    `launches` are, per island, the steps that launch there, `order` all of these steps, `made` the step that makes each result
    and `made_on` the position of its island.
    """

    islands: tuple[Island, ...]
    launches: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    made: tuple[int, ...]
    made_on: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """What launches of a plan are estimated to take, in sums from the first on, per island of its shape.

    `moved`: how often estimates had moved when they were made. `device_times` count every device of a gang.
    """

    moved: int
    durations: tuple[tuple[int, ...], ...]
    device_times: tuple[tuple[int, ...], ...]


@dataclass(slots=True, eq=False)
class Plan:
    """`islands` are all that take part, also those where only an argument lives. `results` are slots, one per result."""

    name: str
    nodes: tuple[Node, ...]
    arguments: tuple[PlacedSpec, ...]
    results: tuple[int, ...]
    result_specs: tuple[PlacedSpec, ...]
    slot_count: int
    steps: tuple[Step, ...]
    specs: tuple[PlacedSpec, ...]
    islands: tuple[Island, ...]
    executables: tuple[Executable, ...]
    sequential: bool
    groups: tuple[Group, ...] = ()  # ascending, not overlapping; filled by fusion.py
    bound: Bound | None = None
    # Filled by `affected`: step or argument -> positions of the results that depend on it.
    known: dict[int, frozenset[int]] = field(default_factory=dict)
    shape: Shape | None = None
    costs: Costs | None = None
    learned: bool = False  # all its executables were measured
    ended: set[tuple[str, bool]] = field(default_factory=set)  # islands where a run has come to its end, and whether in groups
    # Filled by plan_memory.py: consumed arguments, and whether there are groups -> what a run takes of which devices at most.
    peaks: dict[tuple[tuple[int, ...], bool], tuple[tuple[int, ...], ...]] = field(default_factory=dict)


def slices_of_plan(plan: Plan) -> tuple[int, ...]:
    """The numbers of all slices that it uses, each once."""
    placements = [executable.placement for executable in plan.executables]
    return slices_of([*placements, *(placed.placement for placed in (*plan.arguments, *plan.specs, *plan.result_specs))])


@dataclass(slots=True, eq=False)
class Bound:
    """A plan on the hosts of one set of epochs. `command` was sent to every one of `hosts`.

    `launches` are, per island name, the steps that launch there; `own`, per host in the order of `hosts`, those it takes part in.
    """

    command: LoadPlan
    hosts: tuple[Host, ...]
    epochs: tuple[int, ...]  # of Plan.islands, in their order
    launches: dict[str, tuple[int, ...]]
    own: tuple[tuple[int, ...], ...]
    # Filled by spans.py: per island of the shape, its members and the positions in `Shape.launches` that are their own.
    members: tuple[tuple[tuple[Host, tuple[int, ...]], ...], ...] = ()
    involved: tuple[tuple[int, ...], ...] = ()  # sequential dispatch: per host, the steps that it launches, sends or receives in
    doubtful: bool = False  # a gang of it may fail on one member alone
    ready: bool = False  # its executables are loaded, which holds as long as its epochs
    grouped: bool = False  # those of its groups too, and its hosts know the groups
    # How its hosts understood it, see agreement.py: who has not said so yet, and the runs that wait for that.
    asked: bool = False
    due: dict[HostName, Host] = field(default_factory=dict)
    deadline_ns: int = 0
    understood: tuple[FieldDigest, ...] = ()
    disagreement: Failure | None = None
    waiters: list[Run] = field(default_factory=list)
