"""What the core remembers of an epoch that is ending."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure

if TYPE_CHECKING:
    from .records import Host


@dataclass(slots=True, eq=False)
class Ending:
    """Because of `host`, as `text` says; `gone`: it, and other members that went meanwhile."""

    host: Host
    text: str
    cause: Failure
    deadline_ns: int
    finished_through: int
    gone: list[Host] = field(default_factory=list)
