"""Workers over real connections of both kinds with a scripted core: joining, commands and their clock, events, the end."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pathways_common.model.ids import Epoch, HostName, Sequence
from pathways_common.process.tasks import TaskFailed
from pathways_common.rpc.auth import bearer
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc, sessions_pb2, types_pb2, workers_pb2
from pathways_server.core import effects, events
from pathways_server.core.events import GangTime
from pathways_server.core.snapshot import HostFigures, IslandFigures, Snapshot
from pathways_server.rpc.decode_host import progress_in, progress_of
from pathways_worker.shell import wire

from tests.unit.server_shell.scripted_core import TIMEOUT_S, controller, join, open_session, read_items, status_of

both = pytest.mark.parametrize("transport", ["grpc", "framed"])


def prepare(event: events.ExecuteRequested, sequence: int) -> effects.Prepare:
    return effects.Prepare(
        event.execution_id,
        event.executable_id,
        event.arguments,
        event.first_result_id,
        (),
        0,
        sequence,
        sequence - 1,
        1,  # type: ignore[arg-type]
    )


def executes(first: int, count: int) -> list[Any]:
    return [
        sessions_pb2.ClientOperation(execute=sessions_pb2.Execute(execution_id=first + index, executable_id=1))
        for index in range(count)
    ]


def test_a_worker_needs_the_secret_and_not_the_token(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            call = running.worker_call(running.token)
            code, details = await status_of(call)
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert "start the worker with the --state-dir of the cluster" in details

    asyncio.run(scenario())


@both
def test_incarnations_rise_and_the_end_of_the_stream_loses_the_host(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            first = running.worker_call()
            one = await join(first)
            second = running.worker_call()
            await second.write(
                workers_pb2.WorkerFrame(
                    hello=workers_pb2.WorkerHello(host="a0", island="a", device_count=1, data_address="127.0.0.1:5")
                )
            )
            frame = await asyncio.wait_for(second.read(), TIMEOUT_S)
            assert "a host named a0 has joined already" in frame.refused.failure.message
            first.cancel()
            (lost,) = await running.core.wait_for(events.HostLost)
            assert (lost.host, lost.incarnation) == ("a0", one.incarnation)
            two = await join(running.worker_call())
            assert two.incarnation > one.incarnation
            joined = running.core.of(events.HostJoined)[1]
            assert joined == events.HostJoined("a0", "a", two.incarnation, 1, "127.0.0.1:5", 42, 0)  # type: ignore[arg-type]

    asyncio.run(scenario())


def test_a_hello_says_where_devices_are_and_what_makes_no_coordinate_is_malformed(tmp_path: Path) -> None:
    def hello(topology: list[int], coordinates: list[int], kind: str = "fast") -> workers_pb2.WorkerFrame:
        return workers_pb2.WorkerFrame(
            hello=workers_pb2.WorkerHello(
                host="a0", island="a", device_count=2, data_address="127.0.0.1:5", topology=topology, coordinates=coordinates,
                device_kind=kind,
            )
        )  # fmt: skip

    async def scenario() -> None:
        async with controller(tmp_path) as running:
            for wrong in ([2, 0], [0, 0, 0, 1]), ([1] * 4, [0] * 8), ([2, 2], [0, 0, 0]), ([], [0, 1]), ([4097], [0, 1]):
                call = running.worker_call()
                await call.write(hello(*wrong))
                code, details = await status_of(call)
                assert (code, "malformed message: hello." in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), (
                    wrong,
                    details,
                )
            call = running.worker_call()
            await call.write(hello([2, 2], [0, 0, 1, 0], "fast\x00"))
            assert (await status_of(call))[0] is grpc.StatusCode.INVALID_ARGUMENT
            call = running.worker_call()
            await call.write(hello([2, 2], [0, 0, 1, 0]))
            (joined,) = await running.core.wait_for(events.HostJoined)
            assert (joined.topology, joined.coordinates, joined.device_kind) == ((2, 2), ((0, 0), (1, 0)), "fast")

    asyncio.run(scenario())


@both
def test_executions_leave_in_few_frames_by_the_acknowledgement_clock(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            workers = {name: running.worker_call() for name in ("a0", "a1")}
            for name, call in workers.items():
                await join(call, name)
            granted = iter(range(1, 1000))

            def execute(event: events.ExecuteRequested) -> list[effects.Effect]:
                command = prepare(event, next(granted))
                return [effects.SendToHost(host, command) for host in workers]  # type: ignore[arg-type]

            running.core.answers[events.ExecuteRequested] = execute
            call = running.session_call()
            number = (await open_session(call)).session_number
            for sequence in range(1, 51):
                operations = executes(10 * sequence, 10)
                await call.write(sessions_pb2.ClientFrame(sequence=sequence, operations=operations))
            await running.core.wait_for(events.ExecuteRequested, 500)
            for worker in workers.values():
                commands: list[Any] = []
                frames = 0
                while len(commands) < 500:
                    frame = await asyncio.wait_for(worker.read(), TIMEOUT_S)
                    frames += 1
                    commands += frame.commands
                    await worker.write(workers_pb2.WorkerFrame(acknowledged=frame.sequence))
                assert [each.prepare.sequence for each in commands] == list(range(1, 501))
                assert commands[0].prepare.execution_id == number << 40 | 10
                assert frames <= 10
            url = f"http://127.0.0.1:{running.app.metrics_port}/metrics"
            text = (await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=TIMEOUT_S).read())).decode()
            assert 'pathways_server_gangs_granted_total{island="a"} 500.0' in text
            assert 'pathways_server_operations_total{operation="execute"} 500.0' in text
            assert "pathways_server_hosts 2.0" in text
            assert "pathways_server_sessions 1.0" in text
            assert 'pathways_server_frames_total{direction="received"}' in text
            assert "pathways_server_turn_seconds_bucket" in text

    asyncio.run(scenario())


@both
def test_urgent_commands_pass_an_unacknowledged_window(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            worker = running.worker_call()
            await join(worker)

            def answer(event: events.FenceRequested) -> list[effects.Effect]:
                urgent = event.fence_id == 9
                command = effects.CallbackAbort(event.session) if urgent else effects.Cancel(event.fence_id)  # type: ignore[arg-type]
                return [effects.SendToHost("a0", command, urgent=urgent)]  # type: ignore[arg-type]

            running.core.answers[events.FenceRequested] = answer
            call = running.session_call()
            await open_session(call)
            commands: list[Any] = []
            frames: list[Any] = []
            for number in (1, 2, 3, 9):
                fence = sessions_pb2.ClientOperation(fence=sessions_pb2.Fence(fence_id=number))
                await call.write(sessions_pb2.ClientFrame(sequence=min(number, 4), operations=[fence]))
                await running.core.wait_for(events.FenceRequested, min(number, 4))
                if number != 3:  # which the window keeps back; each of the others has left before the next one is sent
                    more, came = await read_items(worker, "commands", 1)
                    commands, frames = commands + more, frames + came
            assert [each.WhichOneof("command") for each in commands] == ["cancel", "cancel", "callback_abort"]
            assert [(frame.sequence, frame.urgent) for frame in frames] == [(1, False), (2, False), (3, True)]
            await worker.write(workers_pb2.WorkerFrame(acknowledged=3))
            commands, _ = await read_items(worker, "commands", 1)
            assert commands[0].cancel.execution_id == 3

    asyncio.run(scenario())


@both
def test_a_host_that_the_core_drops_loses_its_connection_and_may_join_again(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            probe, drop = effects.SendToHost(HostName("a0"), effects.Probe(9), urgent=True), effects.DropHost(HostName("a0"))
            running.core.answers[events.EpochEntered] = lambda _: [probe]
            running.core.answers[events.HostPulsed] = lambda _: [
                drop,
                effects.SendToHost(HostName("a0"), effects.EpochEnd(Epoch(3))),
            ]
            worker = running.worker_call()
            one = await join(worker)
            ready = workers_pb2.HostEvent(epoch_ready=workers_pb2.EpochReady(epoch=3, platform="cpu", memory_kinds=["device"]))
            await worker.write(workers_pb2.WorkerFrame(sequence=1, events=[ready]))
            frame = await asyncio.wait_for(worker.read(), TIMEOUT_S)
            assert (frame.urgent, frame.commands[0].probe.number) == (True, 9)
            pulse = workers_pb2.Pulse(
                number=9, epoch=3, entered_through=7, entered_ago_ns=5, finished_through=6, silent_ns=4, idle=True,
                waits_for=workers_pb2.EXECUTOR_WAIT_BYTES, cpu_ns=3,
            )  # fmt: skip
            await worker.write(workers_pb2.WorkerFrame(sequence=2, acknowledged=1, events=[workers_pb2.HostEvent(pulse=pulse)]))
            (pulsed,) = await running.core.wait_for(events.HostPulsed)
            assert pulsed == events.HostPulsed(HostName("a0"), 9, Epoch(3), Sequence(7), 5, Sequence(6), 4, True, True, 3)
            # What the core told it in the same breath never leaves.
            while (last := await asyncio.wait_for(worker.read(), TIMEOUT_S)) is not grpc.aio.EOF:
                assert not last.commands
            (lost,) = await running.core.wait_for(events.HostLost)
            assert (lost.host, lost.incarnation) == ("a0", one.incarnation)
            assert (await join(running.worker_call())).incarnation > one.incarnation

    asyncio.run(scenario())


@both
def test_events_of_a_worker_reach_the_core_and_progress_belongs_to_the_entered_epoch(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            worker = running.worker_call()
            await join(worker)
            ready = workers_pb2.HostEvent(epoch_ready=workers_pb2.EpochReady(epoch=3, platform="cpu", memory_kinds=["device"]))
            info = types_pb2.ExecutableInfo(
                digest=b"d",
                outputs=[types_pb2.ArraySpec(dtype=11, shard_shape=[2, 3])],
                donated_parameters=[1],
                memory=types_pb2.MemoryStats(argument_bytes=10, output_bytes=20, temporary_bytes=5, alias_bytes=8),
            )
            loaded = workers_pb2.HostEvent(loaded=workers_pb2.Loaded(executable_id=7, epoch=3, info=info))
            landed = workers_pb2.HostEvent(landed=workers_pb2.Landed(transfer_id=4))
            log = workers_pb2.HostEvent(log=workers_pb2.Log(lines=["rank 0"]))
            await worker.write(workers_pb2.WorkerFrame(sequence=1, events=[ready, loaded], finished_through=0))
            await worker.write(workers_pb2.WorkerFrame(sequence=2, events=[landed, log], finished_through=12))
            (entered,) = await running.core.wait_for(events.EpochEntered)
            assert entered == events.EpochEntered("a0", 3, "cpu", "", "", ("device",))  # type: ignore[arg-type]
            (got,) = await running.core.wait_for(events.ExecutableLoaded)
            facts = got.facts
            assert (facts.digest, facts.output_count, facts.output_shard_bytes) == (b"d", 1, (24,))
            assert (facts.donated, facts.peak_bytes, facts.payload) == (frozenset({1}), 27, info.SerializeToString())
            assert (facts.temporary_bytes, facts.alias_bytes) == (5, 8)
            (progress,) = await running.core.wait_for(events.HostProgressed)
            assert progress == events.HostProgressed("a0", 3, 12)  # type: ignore[arg-type]
            host = HostFigures("a0", "ACTIVE", 1, 1, "127.0.0.1:5", 42, 9, 8)
            island = IslandFigures("a", "ACTIVE", 3, (host,), 9, 0, 0, "")
            running.core.view = Snapshot((island,), ())
            stub = cluster_pb2_grpc.ClustersStub(running.channel)
            status = await stub.GetStatus(cluster_pb2.GetStatusRequest(), metadata=bearer(running.token), timeout=TIMEOUT_S)
            assert status.islands[0].hosts[0].log_tail == ["rank 0"]
            assert (status.islands[0].granted_through, status.term) == (9, 1)

    asyncio.run(scenario())


def row(sequence: int, started_ns: int, ended_ns: int) -> Any:
    return workers_pb2.GangTime(sequence=sequence, started_ns=started_ns, ended_ns=ended_ns)


def test_times_of_gangs_reach_the_core_once_however_often_they_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            worker = running.worker_call()
            await join(worker)
            ready = workers_pb2.HostEvent(epoch_ready=workers_pb2.EpochReady(epoch=3, platform="cpu"))
            await worker.write(workers_pb2.WorkerFrame(sequence=1, events=[ready]))
            first, second = row(1, 100, 130), row(3, 130, 180)
            told = [first.SerializeToString(), second.SerializeToString()]
            for _ in range(2):
                await worker.write(wire.worker_frame(0, 0, 1, 2, 4, 30, times=told[:1]))
            await worker.write(wire.worker_frame(0, 0, 1, 3, 4, 80, times=told))
            # In a frame with events, and repeated by one that is late.
            landed = workers_pb2.HostEvent(landed=workers_pb2.Landed(transfer_id=4))
            last = workers_pb2.WorkerFrame(
                sequence=2, events=[landed], finished_through=4, launched_through=4, busy_ns=95, times=[row(4, 185, 200)]
            )
            await worker.write(last)
            await worker.write(wire.worker_frame(0, 0, 1, 3, 5, 80, times=told))
            seen = await running.core.wait_for(events.HostProgressed, 4)
            gangs = [GangTime(1, 100, 130), GangTime(3, 130, 180), GangTime(4, 185, 200)]
            assert [each.times for each in seen] == [(gangs[0],), (gangs[1],), (gangs[2],), ()]
            assert [(each.finished_through, each.busy_ns) for each in seen] == [(2, 30), (3, 80), (4, 95), (4, 95)]
            # Another epoch counts from 0 again.
            ready.epoch_ready.epoch = 4
            again = workers_pb2.WorkerFrame(sequence=3, events=[ready], finished_through=1, busy_ns=7, times=[row(1, 300, 307)])
            await worker.write(again)
            seen = await running.core.wait_for(events.HostProgressed, 5)
            assert seen[4] == events.HostProgressed("a0", 4, 1, 0, 7, (GangTime(1, 300, 307),))  # type: ignore[arg-type]

    asyncio.run(scenario())


@pytest.mark.parametrize("wrong", [row(9, 1, 2), row(2, 5, 4), row(0, 1, 2)], ids=["unfinished", "backwards", "no gang"])
def test_times_that_cannot_be_end_that_worker(tmp_path: Path, wrong: Any) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            worker = running.worker_call()
            await join(worker)
            ready = workers_pb2.HostEvent(epoch_ready=workers_pb2.EpochReady(epoch=3, platform="cpu"))
            frame = workers_pb2.WorkerFrame(sequence=1, events=[ready], finished_through=3, times=[row(1, 1, 1), wrong])
            await worker.write(frame)
            code, details = await status_of(worker)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "times must be of finished gangs" in details
            assert running.core.of(events.HostProgressed) == []

    asyncio.run(scenario())


def test_malformed_events_end_only_that_worker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            good, bad = running.worker_call(), running.worker_call()
            await join(good, "a0")
            await join(bad, "a1")
            await bad.write(workers_pb2.WorkerFrame(sequence=1, events=[workers_pb2.HostEvent()]))
            code, details = await status_of(bad)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "an event is empty" in details
            (lost,) = await running.core.wait_for(events.HostLost)
            assert lost.host == "a1"
            assert list(running.app.loop.hosts) == ["a0"]

    asyncio.run(scenario())


@both
def test_stop_sends_every_worker_a_shutdown(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            worker = running.worker_call()
            await join(worker)
            running.app.stop("test")
            commands, _ = await read_items(worker, "commands", 1)
            assert commands[0].shutdown.reason == "the controller was stopped"

    asyncio.run(scenario())


def test_a_defect_of_the_core_is_written_down_and_stops_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:

            def break_down(_event: events.Event) -> list[effects.Effect]:
                raise AssertionError("an invariant is broken")

            running.core.answers[events.FenceRequested] = break_down
            call = running.session_call()
            await open_session(call)
            fence = sessions_pb2.ClientOperation(fence=sessions_pb2.Fence(fence_id=77))
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[fence]))
            with pytest.raises(TaskFailed):
                await asyncio.wait_for(running.running, TIMEOUT_S)
            (path,) = tmp_path.glob("defect-*.txt")
            text = path.read_text()
            assert "an invariant is broken" in text
            assert "FenceRequested(session=1, fence_id=77)" in text

    asyncio.run(scenario())


def test_health_is_served_without_a_token(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            stub = health_pb2_grpc.HealthStub(running.channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(service="pathways.v1.Sessions"), timeout=TIMEOUT_S)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING

    asyncio.run(scenario())


def frame_of(**fields: Any) -> bytes:
    return bytes(workers_pb2.WorkerFrame(**fields).SerializeToString())


def test_a_frame_of_progress_alone_is_read_without_protobuf_and_says_the_same() -> None:
    rows = (GangTime(7, 1 << 60, (1 << 60) + 9), GangTime(9, 1 << 62, (1 << 64) - 1))
    for numbers in ((0, 0, 0, 0), (5, 7, 9, 11), (1 << 63, (1 << 64) - 1, 1, (1 << 64) - 2)):
        for times in ((), rows[:1], rows):
            told = [workers_pb2.GangTime(sequence=a, started_ns=b, ended_ns=c).SerializeToString() for a, b, c in times]
            data = wire.worker_frame(0, numbers[0], 3, *numbers[1:], times=told)
            message = workers_pb2.WorkerFrame.FromString(data)
            assert progress_in(message) == (*numbers, times)
            assert progress_of(data) == (*numbers, times)


def test_frames_that_say_more_or_are_written_otherwise_are_left_to_protobuf() -> None:
    event = workers_pb2.HostEvent(landed=workers_pb2.Landed(transfer_id=4)).SerializeToString()
    assert progress_of(wire.worker_frame(1, 5, 3, 7, 9, 11)) is None
    assert progress_of(wire.worker_frame(0, 5, 3, 7, 9, 11, [event])) is None
    assert progress_of(frame_of(acknowledged=5, finished_through=7)) is None
    short = workers_pb2.GangTime(sequence=7, started_ns=3).SerializeToString()
    assert progress_of(wire.worker_frame(0, 5, 3, 7, 9, 11, times=[short])) is None
    swapped = wire.worker_frame(0, 5, 3, 7, 9, 11)
    swapped = swapped[:9] + swapped[18:27] + swapped[9:18] + swapped[27:]
    assert workers_pb2.WorkerFrame.FromString(swapped).acknowledged == 5
    assert progress_of(swapped) is None
