"""What a daemon answers to a probe: how far its executor is, from the page that the executor writes and from the kernel."""

from __future__ import annotations

import time

from pathways_common.model.ids import Epoch
from pathways_common.process.condition import cpu_ns
from pathways_proto.v1 import workers_pb2

from pathways_worker.shell.executor_process import ExecutorProcess


def pulse_of(number: int, executor: ExecutorProcess | None, epoch: Epoch, idle: bool) -> workers_pb2.Pulse:
    """The executor runs in `epoch`; `idle`: everything that was sent to it has been reported."""
    pulse = workers_pb2.Pulse(number=number)
    signs = None if executor is None else executor.look()
    if executor is not None and signs is not None:
        now_ns = time.monotonic_ns()
        pulse.epoch = epoch
        pulse.entered_through = max(signs.entered_through, signs.launched_through)
        pulse.entered_ago_ns = max(0, now_ns - signs.entered_ns) if signs.entered_ns else 0
        pulse.finished_through = signs.finished_through
        pulse.silent_ns = max(0, now_ns - signs.beat_ns) if signs.beat_ns else 0
        pulse.idle = idle
        pulse.waits_for = signs.waits_for
        pulse.cpu_ns = cpu_ns(executor.pid)
    return pulse
