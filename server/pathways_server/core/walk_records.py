"""What the core remembers of a program with irregular nodes that is under way.

A walk has a frame for its program; a turn of a branch or loop in a frame has a frame for the graph it runs. Values are counted by
who holds them; those that the core made go with the last holder, those of the client when the walk ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure
from pathways_common.model.ids import GlobalId, IslandName

if TYPE_CHECKING:
    from .composite_plan import Body, ChoiceStage, CompositePlan, LoopStage
    from .program_form import Laid
    from .records import Buffer, Definition, Handle, Lane, Session
    from .run_records import Traced


@dataclass(slots=True, eq=False)
class Value:
    handle: Handle
    laid: Laid
    made: bool  # by the core, under an id of its own
    holders: int = 1


@dataclass(slots=True, eq=False)
class Look:
    """The read of one small value that decides how a walk goes on; `data` is the answer."""

    number: int
    session: Session
    walk: Walk
    buffers: tuple[Buffer, ...]
    shard: int
    deadline_ns: int
    sent: bool = False
    data: bytes | None = None


@dataclass(slots=True, eq=False)
class Frame:
    """One graph under way: its values as far as they exist, and its stages that are not over. `label` is for people."""

    body: Body
    values: list[Value | None]
    left: dict[int, None]
    label: str = ""
    turns: dict[int, Turn] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Turn:
    """A branch or loop under way: it runs a frame, or looks at a value, one at a time. `around` is the label of its own frame."""

    stage: ChoiceStage | LoopStage
    around: str
    look: Look | None = None
    looked_at: Value | None = None
    frame: Frame | None = None
    in_body: bool = False  # of a loop: the frame is its body and not its condition
    carried: list[Value] = field(default_factory=list)
    iterations: int = 0


@dataclass(slots=True, eq=False)
class Walk:
    """One run of a composite. `results` are PENDING until it has their values."""

    id: GlobalId
    number: int
    definition: Definition
    composite: CompositePlan
    session: Session
    arguments: list[Handle]
    launch_id: int
    order: int
    root: Frame
    results: list[Buffer] = field(default_factory=list)
    lanes: dict[IslandName, Lane] = field(default_factory=dict)
    failure: Failure | None = None
    over: bool = False
    traced: Traced | None = None
    asked_ns: int = 0
    device_ns: int = 0
