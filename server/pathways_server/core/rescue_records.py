"""The record of an ended epoch whose hosts take what outlives it into their stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure
from pathways_common.model.ids import Epoch, HostName

if TYPE_CHECKING:
    from .memory_records import Account
    from .records import Host


@dataclass(slots=True, eq=False)
class Rescue:
    """`due` have not left the epoch; `deadline_ns` is of time in which the controller listened. `cause`: what ended the epoch."""

    epoch: Epoch
    cause: Failure
    deadline_ns: int
    due: dict[HostName, Host]
    accounts: dict[Host, Account] = field(default_factory=dict)  # of those whose devices others use, too
