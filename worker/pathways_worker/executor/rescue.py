"""What is kept of an epoch that ends goes to the daemon's store without the dispatcher, which may be in a collective for ever.

The request comes past it, on the callback pair, and so do the daemon's decisions. From then on nothing is launched, so that no
value that is here can be donated any more, unless to the launch in hand. Every buffer that is computed is offered at once, and
those that are not are looked at again and again, so that none holds up the others; the dispatcher has a moment for what came
before until it is said of one that it is not here. A value is taken only when no launch is at work that could still take it back.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np
from pathways_common.model.failure import Reason
from pathways_proto.v1 import spilling_pb2

from pathways_worker.executor import runtime
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.data_channel import DataChannel
from pathways_worker.executor.failures import FailureMessage, Refused, execution_failure, make_failure, missing_buffer
from pathways_worker.executor.launcher import Launcher
from pathways_worker.executor.objects import Objects
from pathways_worker.executor.reports import Reports
from pathways_worker.executor.spilling import SEND, offer_of

# How long the dispatcher has for what it was given before.
DRAIN_S = 0.5
_LOOK_S = 0.005


class _Parts(NamedTuple):
    machine: runtime.Runtime
    objects: Objects
    launcher: Launcher
    reports: Reports
    data: DataChannel


class Rescue:
    """`drained` is set by the dispatcher when it has carried out everything that came before the end of the epoch."""

    def __init__(self) -> None:
        self.begun = False
        self.drained = threading.Event()
        self._parts: _Parts | None = None
        self._lane = Lane("rescue")
        # By the id in the store: the memory stays while bytes of it may be on their way.
        self._offered: dict[int, list[np.ndarray[Any, Any]]] = {}

    def enter(self, machine: runtime.Runtime, objects: Objects, launcher: Launcher, reports: Reports, data: DataChannel) -> None:
        """The epoch has begun."""
        self._parts = _Parts(machine, objects, launcher, reports, data)

    def on_command(self, command: Any) -> None:
        """On the thread that reads the callback pair: an EpochEnd or a SpillDecided."""
        parts = self._parts
        if parts is None:
            return
        if command.HasField("epoch_end"):
            self.begun = parts.launcher.closed = True
            self._lane.put(lambda: self._carry_out(parts, command.epoch_end))
        elif command.HasField("spill_decided"):
            decided = command.spill_decided
            rows = self._offered.get(decided.buffer_id)
            if rows is not None and decided.decision == SEND:
                parts.data.send_spilled(decided.buffer_id, rows)
            elif rows is not None:
                # In the store, or there is no room: what is queued to be sent holds what it needs itself.
                del self._offered[decided.buffer_id]

    def _carry_out(self, parts: _Parts, end: Any) -> None:
        """Of what is queued before the dispatcher nothing can harm a value that is here.

        The launcher was closed before this began, and looks at that after it has told what it has in hand. So a launch that may
        donate a value is either in hand, where `_try` finds it, or is not carried out; what has ended has taken its donated
        arguments out of the objects before it was out of hand.
        """
        begin_s = time.monotonic()
        deadline_s = begin_s + end.timeout_ns / 1e9
        open_keeps = list(end.keep)
        while open_keeps and time.monotonic() < deadline_s:
            settled = self.drained.is_set() or time.monotonic() - begin_s > DRAIN_S
            open_keeps = [keep for keep in open_keeps if not self._try(parts, keep, settled)]
            if open_keeps:
                time.sleep(_LOOK_S)

    def _try(self, parts: _Parts, keep: Any, settled: bool) -> bool:
        """Offers a buffer, or says why not; False: it has to be looked at again."""
        identifier = keep.buffer_id
        in_hand = parts.launcher.in_hand
        if in_hand is not None and identifier in in_hand[0].results:
            return False
        if in_hand is not None and identifier in in_hand[1]:
            # To ask the runtime about what is being donated could wait as long as the launch takes.
            if not settled or not in_hand[0].began_ns:
                return False
            self._refuse(parts, keep, missing_buffer(identifier))
            return True
        array = parts.objects.arrays.get(identifier)
        if array is None:
            if not settled:
                return False
            late = make_failure(Reason.UNAVAILABLE, f"buffer {identifier:#x} cannot be kept: not all of its bytes are here")
            self._refuse(parts, keep, parts.objects.failure(identifier) or late)
            return True
        if array.is_deleted():
            self._refuse(parts, keep, missing_buffer(identifier))
            return True
        try:
            if not array.is_ready():
                return False
            rows: list[np.ndarray[Any, Any]] = []
            offer = offer_of(parts.machine, keep.stored_id, array, rows, keep.shards)
        except Exception as error:
            self._refuse(parts, keep, error.failure if isinstance(error, Refused) else execution_failure(error))
            return True
        self._offered[keep.stored_id] = rows
        parts.reports.post(spill_offered=offer)
        return True

    def _refuse(self, parts: _Parts, keep: Any, failure: FailureMessage) -> None:
        answer = spilling_pb2.ArraySpilled(buffer_id=keep.stored_id, spill_number=keep.spill_number, failure=failure)
        parts.reports.post(array_spilled=answer)
