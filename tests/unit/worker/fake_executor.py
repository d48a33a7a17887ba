"""Stands in for an executor without jax: answers commands by simple rules, so that a test of the daemon can tell what arrived.

EpochBegin: EpochReady, unless rank_count is 99 (EpochFailed). AwaitReady: BecameReady. FetchShard: the bytes `fetch-<id>` inline
or on the data pair; a failure if shard.id is 404. Landed bytes: Landed, and later fetches of that id give them back. Load: a
callback whose reply comes back as Log; with a key: logged as `load <executable> <image>`, and Loaded, compiled with the image
`image of <program>`, or from an image; the image `broken` kills. Free of 13: dies by a signal after a line on stderr; of 14: exit
code 3; of 15: keeps acknowledgements back until a Free of 16; of 17: a malformed report. Every Prepare is logged as
`launched <sequence>`; one with launch_id 7 does not finish. Commands of runs are logged as `<kind> <execution>`. The sends of
granted steps are answered with 16 bytes of the step's number; those of execution 404 with a failure, those of 405 never. What
comes for a run is logged as `landed <number> <hex>` or `failed <number> <reason> <host> <message>`.
"""

from __future__ import annotations

import argparse
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

from pathways_common.process.condition import keep_stacks
from pathways_proto.v1 import segments_pb2, types_pb2, workers_pb2
from pathways_worker.core.plans import HostPlan, host_plan
from pathways_worker.plan_messages import read_plan

if __name__ == "__main__":
    from fake_spilling import FakeSpilling  # run as a script: its own folder is on the path
else:
    from tests.unit.worker.fake_spilling import FakeSpilling

_LENGTH = struct.Struct("<I")


def read_exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def read_frame(channel: socket.socket) -> bytes:
    return read_exactly(channel, _LENGTH.unpack(read_exactly(channel, 4))[0])


def write_frame(channel: socket.socket, payload: bytes, raw: bytes = b"") -> None:
    channel.sendall(_LENGTH.pack(len(payload)) + payload + raw)


class FakeExecutor:
    def __init__(
        self,
        control: socket.socket,
        data: socket.socket,
        callback: socket.socket,
        segments: socket.socket,
        page: mmap.mmap,
        host: str,
    ) -> None:
        self.page = page
        self.segments = segments
        self.held: dict[int, bytes] = {}
        self.pushed: dict[int, bytes] = {}
        self.host = host
        self.launched = 0
        self.plans: dict[int, HostPlan] = {}
        # Of a run: its plan, its number and the first step that is not granted.
        self.runs: dict[int, tuple[HostPlan, int, int]] = {}
        self.control, self.data, self.callback = control, data, callback
        self.landed: dict[int, bytes] = {}
        self.holding = False
        self.finished = 0
        self.acknowledged = 0
        self.spilling = FakeSpilling(lambda header, data: write_frame(self.data, header.SerializeToString(), data), logged)

    def serve(self) -> None:
        self.report()
        while True:
            for channel in select.select([self.control, self.data, self.segments], [], [])[0]:
                if channel is self.segments:
                    self.use_segment(*socket.recv_fds(channel, 4096, 1)[:2])
                elif channel is self.control:
                    commands = workers_pb2.ExecutorCommands.FromString(read_frame(channel))
                    events = [event for command in commands.commands for event in self.handle(command)]
                    self.acknowledged = commands.frame
                    self.report(events)
                else:
                    header = workers_pb2.ExecutorDataHeader.FromString(read_frame(channel))
                    data = read_exactly(channel, header.size_bytes)
                    self.report(self.spilling.arrived(header, data) if header.buffer_id else [self.arrived(header, data)])

    def arrived(self, header: workers_pb2.ExecutorDataHeader, data: bytes) -> workers_pb2.HostEvent:
        number, failure = header.transfer_id, header.failure
        if number < 1 << 63:
            self.landed[number] = data
            return workers_pb2.HostEvent(landed=workers_pb2.Landed(transfer_id=number))
        failed = f"failed {number} {failure.reason} {failure.host} {failure.message}"
        return logged(failed if header.HasField("failure") else f"landed {number} {data.hex()}")

    def report(self, events: list[workers_pb2.HostEvent] | tuple[()] = ()) -> None:
        acknowledged = 0 if self.holding else self.acknowledged
        now_ns = time.monotonic_ns()
        self.page[:56] = struct.pack("<7Q", self.launched, self.finished, self.launched, now_ns, now_ns, 0, 0)
        report = workers_pb2.ExecutorReport(
            acknowledged_frame=acknowledged, finished_through=self.finished, launched_through=self.launched, events=events
        )
        write_frame(self.control, report.SerializeToString())

    def handle(self, command: workers_pb2.HostCommand) -> list[workers_pb2.HostEvent]:
        kind = command.WhichOneof("command")
        handler = getattr(self, f"on_{kind}", None) or getattr(self.spilling, f"on_{kind}", None)
        return [] if handler is None else handler(getattr(command, kind))

    def on_epoch_begin(self, begin: Any) -> list[workers_pb2.HostEvent]:
        if begin.rank_count == 99:
            failure = types_pb2.Failure(reason="UNAVAILABLE", message="no coordinator")
            return [workers_pb2.HostEvent(epoch_failed=workers_pb2.EpochFailed(epoch=begin.epoch, failure=failure))]
        environment = [f"{name}={value}" for name, value in sorted(os.environ.items())]
        return [
            workers_pb2.HostEvent(epoch_ready=workers_pb2.EpochReady(epoch=begin.epoch, platform="cpu", compiler="fake")),
            workers_pb2.HostEvent(
                log=workers_pb2.Log(lines=[f"pid={os.getpid()}", f"words={' '.join(sys.argv[1:])}", *environment])
            ),
        ]

    def on_prepare(self, prepare: Any) -> list[workers_pb2.HostEvent]:
        self.launched = prepare.sequence
        if prepare.launch_id != 7:
            self.finished = prepare.sequence
        memory = workers_pb2.Memory(live_bytes=100, buffer_count=2, launched_gangs=prepare.sequence)
        return [
            workers_pb2.HostEvent(log=workers_pb2.Log(lines=[f"launched {prepare.sequence}"])),
            workers_pb2.HostEvent(memory=memory),
        ]

    def on_await_ready(self, wait: Any) -> list[workers_pb2.HostEvent]:
        return [workers_pb2.HostEvent(became_ready=workers_pb2.BecameReady(wait_id=wait.wait_id))]

    def on_fetch_shard(self, fetch: Any) -> list[workers_pb2.HostEvent]:
        data = self.landed.get(fetch.shard.id, f"fetch-{fetch.fetch_id}".encode())
        failure = types_pb2.Failure(reason="DELETED", message="it was deleted") if fetch.shard.id == 404 else None
        if fetch.held and not failure:
            self.held[fetch.fetch_id] = data
            write_frame(self.data, workers_pb2.ExecutorDataHeader(fetch_id=fetch.fetch_id, held=True).SerializeToString())
            return []
        if fetch.ticket:
            size = 0 if failure else len(data)
            header = workers_pb2.ExecutorDataHeader(fetch_id=fetch.fetch_id, size_bytes=size, failure=failure)
            write_frame(self.data, header.SerializeToString(), b"" if failure else data)
            return []
        if failure:
            failed = workers_pb2.FetchFailedOnHost(fetch_id=fetch.fetch_id, failure=failure)
            return [workers_pb2.HostEvent(fetch_failed=failed)]
        return [workers_pb2.HostEvent(shard_fetched=workers_pb2.ShardFetched(fetch_id=fetch.fetch_id, data=data))]

    def use_segment(self, payload: bytes, descriptors: list[int]) -> None:
        """Orders about held fetches, and bytes of transfers; what is let go is logged as `let go <fetch>`."""
        if not payload:
            sys.exit(0)
        order = segments_pb2.SegmentUse.FromString(payload)
        header = workers_pb2.ExecutorDataHeader(fetch_id=order.fetch_id, push_id=order.push_id, written=True)
        raw = b""
        if order.push_id and descriptors:
            self.pushed[order.push_id] = self.pushed.get(order.push_id, b"") + os.pread(
                descriptors[0], order.size_bytes, order.offset
            )
        elif order.push_id:
            data = self.pushed.pop(order.push_id)
            if not order.transfer_id:
                self.report([logged(f"dropped {len(data)} bytes")])
                return
            self.report([self.arrived(workers_pb2.ExecutorDataHeader(transfer_id=order.transfer_id), data)])
        elif order.stream:
            header, raw = workers_pb2.ExecutorDataHeader(fetch_id=order.fetch_id), self.held[order.fetch_id]
            header.size_bytes = len(raw)
        elif descriptors:
            assert len(self.held[order.fetch_id]) == order.size_bytes
            os.pwrite(descriptors[0], self.held[order.fetch_id], order.offset)
        else:
            del self.held[order.fetch_id]
            self.report([logged(f"let go {order.fetch_id}")])
            return
        for descriptor in descriptors:
            os.close(descriptor)
        write_frame(self.data, header.SerializeToString(), raw)

    def on_load_plan(self, message: Any) -> list[workers_pb2.HostEvent]:
        self.plans[message.plan_id] = host_plan(read_plan(message), self.host)
        return [logged(f"load_plan {message.plan_id}")]

    def on_unload_plan(self, message: Any) -> list[workers_pb2.HostEvent]:
        return [logged(f"unload_plan {plan_id}") for plan_id in message.plan_ids]

    def on_run_plan(self, message: Any) -> list[workers_pb2.HostEvent]:
        if message.plan_id in self.plans:
            self.runs[message.execution_id] = self.plans[message.plan_id], message.number, 0
            self.carry_out(message)
        return [logged(f"run_plan {message.execution_id}")]

    def on_grant_run(self, message: Any) -> list[workers_pb2.HostEvent]:
        self.carry_out(message)
        return [logged(f"grant_run {message.execution_id}")]

    def on_end_run(self, message: Any) -> list[workers_pb2.HostEvent]:
        return [logged(f"end_run {message.execution_id}")]

    def on_collect_trace(self, message: Any) -> list[workers_pb2.HostEvent]:
        trace = workers_pb2.TraceCollected(trace_id=message.trace_id, execution_id=message.execution_id, prepared_ns=5)
        return [workers_pb2.HostEvent(trace_collected=trace)]

    def carry_out(self, message: Any) -> None:
        plan, number, first_step = self.runs[message.execution_id]
        self.runs[message.execution_id] = plan, number, message.end_step
        for step, count, _ in plan.sends:
            if message.execution_id == 405 or not first_step <= step < message.end_step:
                continue
            fetch_id = (1 << 63) + (number << 24) + count
            failure = types_pb2.Failure(reason="DELETED", message="it was deleted") if message.execution_id == 404 else None
            data = b"" if failure else bytes([step] * 16)
            header = workers_pb2.ExecutorDataHeader(fetch_id=fetch_id, size_bytes=len(data), failure=failure)
            write_frame(self.data, header.SerializeToString(), data)

    def on_load(self, load: Any) -> list[workers_pb2.HostEvent]:
        if load.image_key:
            answer = workers_pb2.Loaded(executable_id=load.executable_id, epoch=load.epoch, reused=bool(load.image))
            answer.info.name = "program"
            answer.image = b"" if load.image else b"image of " + load.program
            if load.image == b"broken":
                self.page[48:56] = struct.pack("<Q", load.executable_id)
                os.kill(os.getpid(), signal.SIGKILL)
            return [logged(f"load {load.executable_id} {load.image.decode()}"), workers_pb2.HostEvent(loaded=answer)]
        call = workers_pb2.CallbackCall(call_id=5, session_number=1, callback_id=load.callback_ids[0])
        report = workers_pb2.ExecutorReport(events=[workers_pb2.HostEvent(callback_call=call)])
        write_frame(self.callback, report.SerializeToString())
        reply = workers_pb2.ExecutorCommands.FromString(read_frame(self.callback)).commands[0].callback_reply
        return [workers_pb2.HostEvent(log=workers_pb2.Log(lines=[f"callback {reply.call_id} replied"]))]

    def on_free(self, free: Any) -> list[workers_pb2.HostEvent]:
        for identifier in free.ids:
            if identifier == 13:
                print("[Gloo] Rank 0 is connected to 1 peer ranks.", flush=True)
                print("the last words", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            elif identifier == 14:
                sys.exit(3)
            elif identifier == 17:
                write_frame(self.control, b"\x1a\x7fnonsense")
            self.holding = {15: True, 16: False}.get(identifier, self.holding)
        return []


def logged(line: str) -> workers_pb2.HostEvent:
    return workers_pb2.HostEvent(log=workers_pb2.Log(lines=[line]))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("control-fd", "data-fd", "callback-fd", "progress-fd", "device-count"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--stacks-fd", type=int, required=True)
    parser.add_argument("--segment-fd", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--split-threads", action="store_true")
    parser.add_argument("--batch-scheduling", action="store_true")
    parser.add_argument("--device-memory", type=int)
    parser.add_argument("--no-python", action="store_true")
    arguments = parser.parse_args()
    keep_stacks(arguments.stacks_fd)
    numbers = (arguments.control_fd, arguments.data_fd, arguments.callback_fd, arguments.segment_fd)
    channels = [socket.socket(fileno=fd) for fd in numbers]
    FakeExecutor(*channels, mmap.mmap(arguments.progress_fd, 0), arguments.host).serve()


if __name__ == "__main__":
    main()
