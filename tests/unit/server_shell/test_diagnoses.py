"""Hosts are asked past what waits for them; who is silent is named; a tenant sees no stacks and no work of others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from pathways_common.model.ids import HostName, IslandName
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import open_channel
from pathways_proto.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    sessions_pb2_grpc,
    tenants_pb2,
    tenants_pb2_grpc,
    workers_pb2,
    workers_pb2_grpc,
)
from pathways_server.app import App
from pathways_server.config import Config
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.diagnoses import DiagnosisCalls
from pathways_server.shell.peer import HostPeer

from tests.unit.server_shell.scripted_core import TIMEOUT_S, join, open_session
from tests.unit.server_shell.test_shell_with_the_core import play_worker

SILENCE = "cannot answer: state T (stopped); SIGCONT lets it go on"


async def describe(call: Any) -> None:
    """A worker that answers nothing but the question how it is."""
    sequence = 0
    while hasattr(received := await call.read(), "commands"):
        for command in received.commands:
            if command.HasField("diagnose_host"):
                assert received.urgent
                number = command.diagnose_host.request_id
                said = workers_pb2.HostDiagnosis(request_id=number, output=["words of anybody"], loading=5)
                said.processes.add(role="DAEMON", pid=42, state="S", stacks=["in serve"])
                said.processes.add(role="EXECUTOR", pid=43, state="T", silence=SILENCE)
                sequence += 1
                answer = workers_pb2.WorkerFrame(sequence=sequence, events=[workers_pb2.HostEvent(host_diagnosis=said)])
                await call.write(answer)


def test_a_stopped_executor_and_a_silent_daemon_are_both_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        app = App(Config(listen="127.0.0.1:0", state_dir=tmp_path, metrics_port=-1))
        await app.start()
        running = asyncio.create_task(app.run())
        administrator, secret = ((tmp_path / name).read_text().strip() for name in ("token", "secret"))
        async with open_channel(app.address) as channel:
            connect = workers_pb2_grpc.WorkersStub(channel).Connect
            lively, silent = (connect(metadata=bearer(secret), timeout=60) for _ in range(2))
            await join(lively, "a0")
            await join(silent, "a1")
            describing = asyncio.create_task(describe(lively))
            tenants, clusters = tenants_pb2_grpc.TenantsStub(channel), cluster_pb2_grpc.ClustersStub(channel)
            request = tenants_pb2.AddTenantRequest(request_id="1", name="ads")
            token = (await tenants.AddTenant(request, metadata=bearer(administrator), timeout=TIMEOUT_S)).token
            asked = [clusters.Diagnose(cluster_pb2.DiagnoseRequest(), metadata=bearer(each), timeout=TIMEOUT_S)
                     for each in (administrator, token)]  # fmt: skip
            whole, own = [await each for each in asked]
            for answer in (whole, own):
                assert [(host.host, bool(host.silence)) for host in answer.hosts] == [("a0", False), ("a1", True)]
                assert answer.verdict[0].startswith("host a1 is stuck or cut off: its daemon (pid 42) did not answer within 2 s")
                assert answer.verdict[1] == f"the executor of a0 (pid 43) {SILENCE}."
                assert any("host joined" in line.text for line in answer.recent)
            assert list(whole.hosts[0].diagnosis.processes[0].stacks) == ["in serve"]
            assert (list(whole.hosts[0].diagnosis.output), whole.hosts[0].diagnosis.loading) == (["words of anybody"], 5)
            assert whole.controller.role == "CONTROLLER"
            assert [list(process.stacks) for process in own.hosts[0].diagnosis.processes] == [[], []]
            assert (list(own.hosts[0].diagnosis.output), own.hosts[0].diagnosis.loading) == ([], 0)
            assert not own.HasField("controller")
            for call in (lively, silent):
                call.cancel()
            describing.cancel()
        app.stop("the test is over")
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(scenario())


def test_a_story_is_told_to_its_tenant_and_to_the_administrator(tmp_path: Path) -> None:
    async def scenario() -> None:
        app = App(Config(listen="127.0.0.1:0", state_dir=tmp_path, metrics_port=-1, default_hosts_per_island=1))
        await app.start()
        running = asyncio.create_task(app.run())
        administrator, secret = ((tmp_path / name).read_text().strip() for name in ("token", "secret"))
        async with open_channel(app.address) as channel:
            worker = workers_pb2_grpc.WorkersStub(channel).Connect(metadata=bearer(secret), timeout=60)
            await join(worker)
            playing = asyncio.create_task(play_worker(worker))
            tenants, clusters = tenants_pb2_grpc.TenantsStub(channel), cluster_pb2_grpc.ClustersStub(channel)
            tokens = [administrator]
            for number, name in enumerate(("ads", "search")):
                request = tenants_pb2.AddTenantRequest(request_id=str(number), name=name)
                tokens.append((await tenants.AddTenant(request, metadata=bearer(administrator), timeout=TIMEOUT_S)).token)
            call = sessions_pb2_grpc.SessionsStub(channel).Connect(metadata=bearer(tokens[1]), timeout=60)
            number = (await open_session(call)).session_number

            async def told(token: str, **fields: Any) -> list[str]:
                question = cluster_pb2.GetStoryRequest(**fields)
                answer = await clusters.GetStory(question, metadata=bearer(token), timeout=TIMEOUT_S)
                return [line.text for line in answer.lines]

            for token in tokens[:2]:
                assert any("session opened" in text for text in await told(token, kind="SESSION", number=number))
            for token in tokens:
                assert any("is now ACTIVE" in text for text in await told(token, kind="HOST", name="a0"))
            with pytest.raises(grpc.aio.AioRpcError, match=f"nothing is remembered of session {number}") as caught:
                await told(tokens[2], kind="SESSION", number=number)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            call.cancel()
            worker.cancel()
            playing.cancel()
        app.stop("the test is over")
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(scenario())


def test_a_question_overtakes_a_full_backlog_and_a_late_answer_is_no_matter() -> None:
    async def scenario() -> None:
        peer = HostPeer(HostName("a0"), IslandName("a"), 1, "h:1", frame, Counters(), 1)
        peer.open(b"welcome")
        for number in range(20_000):
            peer.push(b"item %d" % number)
        calls = DiagnosisCalls(lambda host, question: host.push(question, urgent=True))
        assert peer.next_frame() == b"welcome"
        while peer.next_frame() is not None:  # until the window is full: the host acknowledges nothing
            pass
        asking = asyncio.create_task(calls.ask([peer], lambda number: b"question", 0.05))
        await asyncio.sleep(0)
        sent = peer.next_frame()
        assert sent is not None
        assert sent.endswith(b"question")
        assert await asking == {}
        calls.answer(HostName("a0"), 1, "too late")

        async def answered() -> None:
            calls.answer(HostName("a0"), 2, "in time")

        both = await asyncio.gather(calls.ask([peer], lambda number: b"question", 5.0), answered())
        assert both[0] == {"a0": "in time"}

    asyncio.run(scenario())
