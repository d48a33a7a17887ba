"""Stands in for an executor without jax: answers commands by simple rules, so that a test of the daemon can tell what arrived.

EpochBegin: EpochReady, unless rank_count is 99 (EpochFailed). AwaitReady: BecameReady. FetchShard: the bytes `fetch-<id>` inline
or on the data pair; a failure if shard.id is 404. Landed bytes: Landed, and later fetches of that id give them back. Load: a
callback whose reply comes back as Log. Free of 13: dies by a signal after a line on stderr; of 14: exit code 3; of 15: keeps
acknowledgements back until a Free of 16; of 17: a malformed report. Every Prepare is logged as `launched <sequence>`.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import struct
import sys
from typing import Any

from pathways_proto.v1 import types_pb2, workers_pb2

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
    def __init__(self, control: socket.socket, data: socket.socket, callback: socket.socket) -> None:
        self.control, self.data, self.callback = control, data, callback
        self.landed: dict[int, bytes] = {}
        self.holding = False
        self.finished = 0
        self.acknowledged = 0

    def serve(self) -> None:
        self.report()
        while True:
            for channel in select.select([self.control, self.data], [], [])[0]:
                if channel is self.control:
                    commands = workers_pb2.ExecutorCommands.FromString(read_frame(channel))
                    events = [event for command in commands.commands for event in self.handle(command)]
                    self.acknowledged = commands.frame
                    self.report(events)
                else:
                    header = workers_pb2.ExecutorDataHeader.FromString(read_frame(channel))
                    self.landed[header.transfer_id] = read_exactly(channel, header.size_bytes)
                    landed = workers_pb2.Landed(transfer_id=header.transfer_id)
                    self.report([workers_pb2.HostEvent(landed=landed)])

    def report(self, events: list[workers_pb2.HostEvent] | tuple[()] = ()) -> None:
        acknowledged = 0 if self.holding else self.acknowledged
        report = workers_pb2.ExecutorReport(acknowledged_frame=acknowledged, finished_through=self.finished, events=events)
        write_frame(self.control, report.SerializeToString())

    def handle(self, command: workers_pb2.HostCommand) -> list[workers_pb2.HostEvent]:
        kind = command.WhichOneof("command")
        handler = getattr(self, f"on_{kind}", None)
        return [] if handler is None else handler(getattr(command, kind))

    def on_epoch_begin(self, begin: Any) -> list[workers_pb2.HostEvent]:
        if begin.rank_count == 99:
            failure = types_pb2.Failure(reason="UNAVAILABLE", message="no coordinator")
            return [workers_pb2.HostEvent(epoch_failed=workers_pb2.EpochFailed(epoch=begin.epoch, failure=failure))]
        environment = [f"{name}={value}" for name, value in sorted(os.environ.items())]
        return [
            workers_pb2.HostEvent(epoch_ready=workers_pb2.EpochReady(epoch=begin.epoch, platform="cpu")),
            workers_pb2.HostEvent(log=workers_pb2.Log(lines=[f"pid={os.getpid()}", *environment])),
        ]

    def on_prepare(self, prepare: Any) -> list[workers_pb2.HostEvent]:
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
        if fetch.ticket:
            size = 0 if failure else len(data)
            header = workers_pb2.ExecutorDataHeader(fetch_id=fetch.fetch_id, size_bytes=size, failure=failure)
            write_frame(self.data, header.SerializeToString(), b"" if failure else data)
            return []
        if failure:
            failed = workers_pb2.FetchFailedOnHost(fetch_id=fetch.fetch_id, failure=failure)
            return [workers_pb2.HostEvent(fetch_failed=failed)]
        return [workers_pb2.HostEvent(shard_fetched=workers_pb2.ShardFetched(fetch_id=fetch.fetch_id, data=data))]

    def on_load(self, load: Any) -> list[workers_pb2.HostEvent]:
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


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("control-fd", "data-fd", "callback-fd", "device-count"):
        parser.add_argument(f"--{name}", type=int, required=True)
    arguments = parser.parse_args()
    channels = [socket.socket(fileno=fd) for fd in (arguments.control_fd, arguments.data_fd, arguments.callback_fd)]
    FakeExecutor(*channels).serve()


if __name__ == "__main__":
    main()
