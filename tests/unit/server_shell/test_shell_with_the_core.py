"""The shell around the real core: a played worker joins, a program is loaded and run, and its host's end loses its values."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import open_channel
from pathways_proto.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    sessions_pb2,
    sessions_pb2_grpc,
    types_pb2,
    workers_pb2,
    workers_pb2_grpc,
)
from pathways_server.app import App
from pathways_server.config import Config

from tests.unit.server_shell.scripted_core import TIMEOUT_S, join, open_session, read_items, status_of

SPEC = types_pb2.ArraySpec(dtype=11, shape=[2], shard_shape=[2], devices=[0])
INFO = types_pb2.ExecutableInfo(
    name="jit_f", digest=b"d", outputs=[types_pb2.ArraySpec(dtype=11, shape=[2], shard_shape=[2])], parameter_count=1
)
Operation = sessions_pb2.ClientOperation


async def play_worker(call: Any) -> list[str]:
    """Answers what a worker would answer until the stream ends; returns the names of the commands."""
    seen = []
    sequence = 0
    while True:
        frame = await call.read()
        if not hasattr(frame, "commands"):
            return seen
        answers = []
        for command in frame.commands:
            name = command.WhichOneof("command")
            seen.append(name)
            if name == "epoch_begin":
                epoch = command.epoch_begin.epoch
                ready = workers_pb2.EpochReady(epoch=epoch, platform="cpu", device_kind="cpu", memory_kinds=["device"])
                answers.append(workers_pb2.HostEvent(epoch_ready=ready))
            elif name == "load":
                assert (command.load.program, command.load.options) == (b"module", b"options")
                loaded = workers_pb2.Loaded(executable_id=command.load.executable_id, epoch=command.load.epoch, info=INFO)
                answers.append(workers_pb2.HostEvent(loaded=loaded))
            elif name == "fetch_shard":
                fetched = workers_pb2.ShardFetched(fetch_id=command.fetch_shard.fetch_id, data=b"12345678")
                answers.append(workers_pb2.HostEvent(shard_fetched=fetched))
            elif name == "shutdown":
                return seen
        if answers:
            sequence += 1
        answer = workers_pb2.WorkerFrame(sequence=sequence if answers else 0, acknowledged=frame.sequence, events=answers)
        try:
            await call.write(answer)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return seen  # the controller stopped between its command and this answer


async def say(call: Any, sequence: int, *operations: Any) -> None:
    await call.write(sessions_pb2.ClientFrame(sequence=sequence, received=sequence - 1, operations=operations))


def test_a_program_runs_through_shell_and_core(tmp_path: Path) -> None:
    async def scenario() -> None:
        app = App(Config(listen="127.0.0.1:0", state_dir=tmp_path, metrics_port=-1))
        await app.start()
        running = asyncio.create_task(app.run())
        token, secret = ((tmp_path / name).read_text().strip() for name in ("token", "secret"))
        async with open_channel(app.address) as channel:
            worker = workers_pb2_grpc.WorkersStub(channel).Connect(metadata=bearer(secret), timeout=60)
            await join(worker)
            playing = asyncio.create_task(play_worker(worker))
            call = sessions_pb2_grpc.SessionsStub(channel).Connect(metadata=bearer(token), timeout=60)
            welcome = await open_session(call)
            assert [(device.host, device.island) for device in welcome.devices if not device.pool] == [("a0", "a")]
            compile_ = sessions_pb2.Compile(executable_id=1, program=b"module", options=b"options", devices=[0])
            await say(call, 1, Operation(compile=compile_))
            items, _ = await read_items(call, "operations", 1)
            assert items[0].compiled.info == INFO
            piece = sessions_pb2.Piece(shards=[0], inline=b"abcdefgh")
            await say(
                call,
                2,
                Operation(make_array=sessions_pb2.MakeArray(buffer_id=2, spec=SPEC, pieces=[piece])),
                Operation(execute=sessions_pb2.Execute(execution_id=3, executable_id=1, arguments=[2], first_result_id=4)),
                Operation(fetch=sessions_pb2.Fetch(fetch_id=1, view_id=4, shard=0, size_bytes=8)),
            )
            items, _ = await read_items(call, "operations", 1)
            assert items[0].fetched.data == b"12345678"
            stub = cluster_pb2_grpc.ClustersStub(channel)
            status = await stub.GetStatus(cluster_pb2.GetStatusRequest(), metadata=bearer(token), timeout=TIMEOUT_S)
            assert (status.islands[0].state, status.islands[0].granted_through) == ("ACTIVE", 1)
            assert (status.sessions[0].programs, status.sessions[0].executions) == (1, 1)
            wanted = sessions_pb2.AddSlice(slice_id=5, device_count=1)
            await say(call, 3, Operation(add_slice=wanted))
            items, _ = await read_items(call, "operations", 1)
            assert (list(items[0].slice_added.devices), list(items[0].slice_added.hosts)) == ([1], ["a0"])
            status = await stub.GetStatus(cluster_pb2.GetStatusRequest(), metadata=bearer(token), timeout=TIMEOUT_S)
            assert [(held.slice_id, held.state, held.island, list(held.positions)) for held in status.slices] == [
                (5, "BOUND", "a", [0])
            ]
            await say(call, 4, Operation(goodbye=sessions_pb2.Goodbye(reason="done")))
            assert (await status_of(call))[0] is grpc.StatusCode.OK
            app.stop("test")
            seen = await asyncio.wait_for(playing, TIMEOUT_S)
            assert [name for name in seen if name != "free"][:5] == [
                "epoch_begin", "load", "place_array", "prepare", "fetch_shard",
            ]  # fmt: skip
            assert seen[-1] == "shutdown"
        await asyncio.wait_for(running, TIMEOUT_S)
        assert len(app._programs) == 0

    asyncio.run(scenario())
